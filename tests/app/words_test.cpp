// What help, cards and docs say of a number is what the program counts.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using Catch::Matchers::Contains;
using nlohmann::json;
using test::kvscope_run;

namespace {

/// With one space for any white space: lines end wherever they are full.
std::string flowing(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string source_text(const std::string& path) { return flowing(test::read_text(test::source_folder() / path)); }

std::string help_of(const char* command) {
  const auto result = kvscope_run({command, "--help"});
  REQUIRE(result.exit_code == 0);
  return flowing(result.out);
}

}  // namespace

// H5: margin weights, soft cap, beginning and normaliser were chosen, and nowhere said to be; `train --help` called it
// distillation, whose KL term is not there.
TEST_CASE("the sample's card names each choice of its scorers' training that is not the paper's") {
  const std::string card = source_text("samples/models/kvscope-tiny/README.md");
  CHECK_THAT(card, Contains("Where the scorers' training is not the paper's (KVpop):"));
  const json recipe = read_json((test::sample_model() / "recipe.json").string())["scorer"],
             scorer = read_json((test::sample_model() / "kvpop_scorer.json").string());
  // What recipe and file say stands in the card in their words.
  CHECK_THAT(card, Contains("\"margin\": " + recipe["margin"].dump()));
  CHECK_THAT(card, Contains("clipped at 4") && Contains("eq. 23 is a sigmoid"));
  CHECK(scorer["soft_cap"].is_null());
  CHECK_THAT(card, Contains("the gates have no soft cap (E.5 has one)"));
  CHECK_THAT(card, Contains("begin as seeded normal numbers (E.5: near the identity)"));
  CHECK_THAT(card, Contains("normaliser is the dense one (eq. 9 reuses the sparse student's)"));
  CHECK_THAT(card, Contains("nor the KL term of Algorithm 1 is there"));

  // SmolLM2's default gate is trained alike, and its card says so.
  const std::string smollm2 = source_text("samples/gates/smollm2-135m/README.md");
  CHECK_THAT(smollm2, Contains("Where the training of `kvpop-mlstm` is not the paper's (KVpop): the base is frozen"));
  const auto source = test::source_folder();
  const json other = read_json((source / "samples/recipes/smollm2-kvpop.json").string())["scorer"],
             gate = read_json((source / "samples/gates/smollm2-135m/kvpop-mlstm/gate.json").string());
  for (const char* key : {"adapter", "all_weights", "lse"}) CHECK_FALSE(other.contains(key));
  CHECK_THAT(smollm2, Contains("\"margin\": " + other["margin"].dump()) && Contains("eq. 23 is a sigmoid"));
  CHECK(gate["soft_cap"] == 0.0);
  CHECK_THAT(smollm2, Contains("the gates have no soft cap (E.5 has one)"));
  CHECK_THAT(smollm2, Contains("begin as seeded normal numbers (E.5: near the identity)"));
  CHECK_THAT(smollm2, Contains("normaliser is the dense one (eq. 9 reuses the sparse student's)"));
  CHECK_THAT(smollm2, Contains("neither the sparse student nor the KL term of Algorithm 1"));

  const std::string help = help_of("train");
  CHECK_THAT(help, !Contains("distil", Catch::CaseSensitive::No));
  CHECK_THAT(help, Contains("KVpop's scorers by the boundary loss (eq. 7)"));
}

// H6, C10: the help said "outside window and sinks" of numbers in which sinks count.
TEST_CASE("heads counts sinks that lie outside the window, as its help says") {
  const std::string help = help_of("heads");
  CHECK_THAT(help, Contains("those outside the window, including sinks"));
  CHECK_THAT(help, !Contains("outside window and sinks"));

  // Of two heads one keeps 12 tokens between sinks and window, the other its four sinks: 12 of 16 entries are the first's.
  RunRecord run = test::random_run(3, {.policy = "sp-kv:threshold=0.5,sinks=4,window=16", .n_layers = 1});
  for (int head = 0; head < 3; ++head) {
    auto& row = run.evict_at.row(0, head);
    for (int t = 0; t < run.n_tokens() - 16; ++t) {
      const bool stays = head == 0 ? t >= 20 && t < 32 : head == 1 && t < 4;
      row[static_cast<std::size_t>(t)] = stays ? kNever : std::max(t + 16, 16);
    }
  }
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "t.h5").string();
  save_trace(trace, run, false);
  const auto shown = kvscope_run({"heads", trace, "--count", "1", "--json"});
  INFO(shown.err);
  REQUIRE(shown.exit_code == 0);
  const json heads = json::parse(shown.out);
  CHECK(heads["full"] == json::array({{1.0, 0.0, 0.0}}));
  CHECK(heads["coverage"].get<double>() == Approx(12.0 / 16));
}

// H9: WG-KV's comparison is not the one that its paper prints, and the docs did not say so.
TEST_CASE("what is said of WG-KV names both comparisons, and which of them is the default") {
  const std::string said = "> as in the released code; the paper has >= (strict=0)";
  const auto shown = kvscope_run({"policies", "wg-kv"});
  CHECK_THAT(flowing(shown.out), Contains(said));
  CHECK_THAT(source_text("docs/policies.md"), Contains(said));
  CHECK(PolicySpec::parse("wg-kv").value("strict") == 1);
  CHECK(PolicySpec::parse("sp-kv").value("strict") == 0);
}

TEST_CASE("no page calls a gate KVpop as published, unless to say that it is not") {
  const std::string claim = "KVpop as published", denial = "not ";
  std::size_t n_denials = 0;
  for (const char* folder : {"docs", "samples"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(test::source_folder() / folder)) {
      const auto path = file.path();
      if (path.extension() != ".md" && path.filename() != "gate.json") continue;
      CAPTURE(path.string());
      const std::string text = flowing(test::read_text(path));
      for (std::size_t at = text.find(claim); at != text.npos; at = text.find(claim, at + 1)) {
        CHECK((at >= denial.size() && text.compare(at - denial.size(), denial.size(), denial) == 0));
        ++n_denials;
      }
    }
  }
  CHECK(n_denials > 3);  // the pooled gates
}

TEST_CASE("a pool's share is of the final length, and the words of the program and the page say so") {
  const std::string said = "share is then of the final length, and between two cuts the heads hold less";
  CHECK_THAT(flowing(kvscope_run({"policies", "kvpop"}).out), Contains(said));
  CHECK_THAT(source_text("docs/policies.md"), Contains(said));
  CHECK_THAT(source_text("docs/explanation/pooled-budgets.md"),
             Contains("A share such as `keep=25%` is of the final length"));
}

TEST_CASE("records in which windows differ say that what is kept leaves the window out") {
  const std::string said = "*Kept* leaves the window out, and windows differ";
  const std::string record = test::read_text(test::source_folder() / "docs/records/gates-smollm2.md");
  for (const char* heading : {"## First day", "## Retrieval", "## NLL, recall"}) {
    const std::size_t begin = record.find(std::string("\n") + heading);
    CAPTURE(heading);
    REQUIRE(begin != record.npos);
    CHECK_THAT(flowing(record.substr(begin, record.find("\n## ", begin + 1) - begin)), Contains(said));
  }
  CHECK_THAT(source_text("samples/gates/kvscope-tiny/README.md"), Contains(said));
}

TEST_CASE("every key in the tables of docs/released.md is one that the readers of gates have") {
  std::string code;  // without comments
  for (const auto& file : std::filesystem::directory_iterator(test::source_folder() / "engine/core/files/gate")) {
    std::istringstream lines(test::read_text(file.path()));
    for (std::string line; std::getline(lines, line);) code += line.substr(0, line.find("//")) + "\n";
  }
  std::istringstream page(test::read_text(test::source_folder() / "docs/released.md"));
  int n_keys = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("|")) continue;
    std::istringstream cells(line);
    std::string between, key;
    while (std::getline(cells, between, '`') && std::getline(cells, key, '`')) {
      ++n_keys;
      std::istringstream parts(key);  // names with several parts are put together from them
      for (std::string part; std::getline(parts, part, '.');) {
        CAPTURE(key, part);
        if (part != "{i}") CHECK_THAT(code, Contains(part));
      }
    }
  }
  CHECK(n_keys >= 30);
}
