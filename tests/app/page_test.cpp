// kvscope export -o a.html: what the page holds, against the run by plain loops; page_browser_test.cpp has what it shows.

#include <zlib.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "app/page/packed_run.h"
#include "app/page/run_page.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/app/study_support.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::kvscope_run;
using kvscope::test::TemporaryFolder;

namespace {

/// The data element of a page.
nlohmann::json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"run\">";
  const std::size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int n = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(digits.find(c));
    n += 6;
    if (n >= 8) bytes += static_cast<char>(bits >> (n -= 8) & 0xFF);
  }
  return bytes;
}

/// An array of the page as a browser unpacks it.
std::vector<int> array_of(const nlohmann::json& data, const char* name, std::size_t size) {
  const nlohmann::json& packed = data.at("arrays").at(name);
  const std::size_t width = packed.at("type") == "Uint16" ? 2 : 1;
  const std::string deflated = from_base64(packed.at("deflate"));
  std::string bytes(size * width, '\0');
  uLongf n = bytes.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &n, reinterpret_cast<const Bytef*>(deflated.data()),
                     deflated.size()) == Z_OK);
  REQUIRE(n == bytes.size());
  std::vector<int> values;
  for (std::size_t i = 0; i < bytes.size(); i += width) {
    int value = static_cast<unsigned char>(bytes[i]);
    if (width == 2) value |= static_cast<unsigned char>(bytes[i + 1]) << 8;
    values.push_back(value);
  }
  return values;
}

/// The number of a fact; empty if the page does not have it.
std::string fact_of(const std::string& page, const std::string& name) {
  std::smatch found;
  const std::regex pattern("data-fact=\"" + name + "\" data-value=\"([^\"]*)\"");
  return std::regex_search(page, found, pattern) ? found[1].str() : "";
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

void check_line(const test::Result& result, int exit_code, const std::string& contains) {
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.err.starts_with("error: "));
  CHECK(test::count_lines(result.err) == 1);
  CHECK(result.err.find(contains) != std::string::npos);
}

}  // namespace

TEST_CASE("A page holds every lifetime, verdict and recall of its run") {
  const RunRecord run = GENERATE(test::random_run(1), test::random_run(2, {.last_token_fed = false}),
                                 test::random_run(3, {.policy = "top-k:budget=48,sinks=2,window=16", .n_changes = 2}));
  const std::string page = app::run_page(run, "a.h5");
  const nlohmann::json data = data_of(page);
  const int n_layers = 2, n_heads = 3, n = run.n_tokens();
  const Oracle oracle(run);
  REQUIRE(data["arrays"]["hits"]["columns"] == oracle.n_queries());
  const auto tokens = static_cast<std::size_t>(n_layers * n_heads * n);
  const auto pairs = static_cast<std::size_t>(n_layers * n_heads * oracle.n_queries());
  const std::vector<int> evict_at = array_of(data, "evict_at", tokens), verdict = array_of(data, "verdict", tokens);
  const std::vector<int> hits = array_of(data, "hits", pairs), capacity = array_of(data, "capacity", pairs);
  std::size_t at = 0, pair = 0;
  int wrong = 0, chosen = 0;
  double recalls = 0;
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int head = 0; head < n_heads; ++head) {
      for (int t = 0; t < n; ++t, ++at) {
        const std::int32_t e = run.evict_at.row(layer, head)[static_cast<std::size_t>(t)];
        REQUIRE(evict_at[at] == (e == kNever ? 65535 : e == kUndecided ? 65534 : e));
        const VerdictOfEviction found = eviction_verdict(run, layer, head, t);
        REQUIRE(verdict[at] == verdict_code(found));
        wrong += found.verdict == EvictionVerdict::wrong;
      }
      for (int q = 0; q < oracle.n_queries(); ++q, ++pair) {
        const std::vector<std::uint8_t> keeps = oracle.keeps(layer, head, q);
        int held = 0, both = 0, eligible = 0;
        for (int t = oracle.n_sink(); t <= q - oracle.window(); ++t) {
          const std::int32_t e = run.evict_at.row(layer, head)[static_cast<std::size_t>(t)];
          eligible += e != kUndecided;
          held += keeps[static_cast<std::size_t>(t)];
          both += keeps[static_cast<std::size_t>(t)] && visible(q, t, e);
        }
        const bool choice = held > 0 && held < eligible;
        REQUIRE(capacity[pair] == (choice ? held : 0));
        REQUIRE(hits[pair] == (choice ? both : 0));
        if (choice) recalls += static_cast<double>(both) / held, ++chosen;
      }
    }
  }
  REQUIRE(wrong > 0);
  REQUIRE(chosen > 0);
  CHECK(fact_of(page, "wrong_evictions") == std::to_string(wrong));
  CHECK(std::stod(fact_of(page, "recall")) == Approx(recalls / chosen).epsilon(1e-12));
  CHECK(fact_of(page, "prompt_tokens") == std::to_string(run.prompt_len));
}

TEST_CASE("A page of a run without oracle has neither verdicts nor recall") {
  const RunRecord run = test::random_run(4, {.oracle = false});
  const std::string page = app::run_page(run, "a.h5");
  const nlohmann::json data = data_of(page);
  CHECK(data["arrays"].size() == 1);
  for (const auto& metric : data["metrics"])
    CHECK(metric["name"].get<std::string>().find("recall") == std::string::npos);
  CHECK(fact_of(page, "recall").empty());
  CHECK(fact_of(page, "wrong_evictions").empty());
  CHECK_FALSE(fact_of(page, "density").empty());
}

TEST_CASE("A page of 2,000 tokens in 30 layers of 3 KV heads is below 2 MB, and needs nothing beside it") {
  const RunRecord run = test::random_run(
      5,
      {.policy = "kvpop:budget=500,sinks=4,window=64,decay=0.9999", .n_layers = 30, .prompt_len = 1700, .n_new = 300});
  const std::string page = app::run_page(run, "a.h5");
  CAPTURE(page.size());
  CHECK(page.size() < 2'000'000);
  CHECK(page == app::run_page(run, "a.h5"));
  for (const char* part : {"http:", "https:", "//cdn", "src=", "href=", "@import", "url(", "fetch(", "import("}) {
    CAPTURE(part);
    CHECK(page.find(part) == std::string::npos);
  }
  CHECK(page.find("default-src 'none'") != std::string::npos);
}

TEST_CASE("Text of a run cannot leave its place in a page") {
  const RunRecord plain = test::random_run(6);
  RunRecord run = plain;
  const std::string hostile =
      "</script></pre></title><script>alert(1)</script><!-- {{data}} \" onload=\"x\" & \x01\xFF";
  run.prompt_text = run.model.name = run.scorer.text = hostile;
  run.pieces = {};
  for (int t = 0; t < run.n_tokens(); ++t) run.pieces.push_back(hostile);
  const std::string page = app::run_page(run, "a.h5"), usual = app::run_page(plain, "a.h5");
  for (const char* tag : {"<script", "</script", "<pre", "</pre", "</title", "<!--"}) {
    CAPTURE(tag);
    CHECK(count(page, tag) == count(usual, tag));
  }
  CHECK(page.find("\" onload") > page.find("<script type="));  // inside the data quotes have a backslash
  const auto tokens = data_of(page)["tokens"];
  REQUIRE(tokens.size() == static_cast<std::size_t>(run.n_tokens()));
  CHECK(tokens[0].get<std::string>().starts_with("</script></pre>"));
  CHECK(tokens[0].get<std::string>().ends_with("⟨U+0001⟩⟨FF⟩"));
}

TEST_CASE("A page says nothing of the machine that wrote it") {
  RunRecord run = test::random_run(7);
  run.model.path = "/home/somebody/models/secret-folder";
  CHECK(app::run_page(run, "/home/somebody/secret-trace.h5").find("somebody") == std::string::npos);
}

TEST_CASE("export writes a page of the run that was asked for, and the same bytes again") {
  const TemporaryFolder folder;
  const RunRecord first = test::random_run(1), second = test::random_run(2);
  TraceWriter writer(folder / "a.h5", first.model, {.max_runs = 2, .max_positions = 200});
  writer.add(first);
  writer.add(second);
  writer.finish();
  const std::string trace = (folder / "a.h5").string(), page = (folder / "a.html").string();
  const auto result = kvscope_run({"export", trace, "-o", page, "--run", "1", "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const std::string bytes = test::read_text(page);
  CHECK(nlohmann::json::parse(result.out)["bytes"] == bytes.size());
  CHECK(bytes == app::run_page(second, trace));
  check_line(kvscope_run({"export", trace, "-o", page}), 2, "it exists");
  CHECK(kvscope_run({"export", trace, "-o", page, "--run", "1", "--overwrite"}).exit_code == 0);
  CHECK(test::read_text(page) == bytes);
}

TEST_CASE("export refuses what cannot become a page in one line, and writes nothing then") {
  const TemporaryFolder folder;
  const std::string trace = (folder / "a.h5").string(), page = (folder / "a.html").string();
  save_trace(trace, test::random_run(1), false);
  check_line(kvscope_run({"export", trace, "-o", page, "--run", "1"}), 1, "there is no run 1");
  check_line(kvscope_run({"export", trace, "-o", page, "--what", "tokens"}), 1, "leave this option out for a page");
  check_line(kvscope_run({"export", trace, "-o", trace + ".htm"}), 1, "a name that ends in .csv, .nc or .html");
  const std::string study = (folder / "s.h5").string(), cut = (folder / "cut.h5").string();
  write_study(study, test::small_study(), false);
  check_line(kvscope_run({"export", study, "-o", page}), 1, "a page shows a run");
  std::filesystem::copy_file(trace, cut);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  check_line(kvscope_run({"export", cut, "-o", page}), 2, "cut.h5");
  const std::string longer = (folder / "long.h5").string();
  save_trace(longer,
             test::random_run(8, {.policy = "streaming:window=60,sinks=4",
                                  .n_layers = 1,
                                  .n_kv_heads = 1,
                                  .prompt_len = app::most_page_tokens(1),
                                  .n_new = 1,
                                  .scorer = false,
                                  .oracle = false}),
             false);
  check_line(kvscope_run({"export", longer, "-o", page}), 2,
             "16385 tokens in 1 KV heads; expected at most 16384 tokens");
  CHECK_FALSE(std::filesystem::exists(page));
}
