// kvscope hybrid on the sample model: its table against score, heads and its own journal.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/files/gate/head_formats.h"
#include "engine/core/study/heads/head_choice.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_child.h"
#include "tests/app/process.h"
#include "tests/support/skip.h"

using namespace kvscope;
using nlohmann::json;
using test::kvscope_run;
using test::read_text;
using test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json result_of(const Words& words) {
  const test::Result result = kvscope_run(words + Words{"--device", "cpu", "--dtype", "float32", "--quiet", "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

/// Some hundred tokens of English, and how many the sample model makes of them.
struct Text {
  fs::path path;
  std::string n_tokens;
};
Text text_in(const TemporaryFolder& folder) {
  const Text text{folder / "text.txt", ""};
  std::ofstream(text.path) << read_text(test::source_folder() / "samples/prompts/heldout.txt").substr(3000, 520);
  const json score = result_of({"score", test::sample_model().string(), "--text-file", text.path.string()});
  return {text.path, std::to_string(score["tokens"].get<int>())};
}

Words hybrid_words(const fs::path& text, const std::string& length, const fs::path& output) {
  return {"hybrid",   test::sample_model().string(),
          "--texts",  text.string(),
          "--pieces", "1",
          "--length", length,
          "-o",       output.string()};
}

json point(const json& study, const std::string& label) {
  for (const json& row : study["points"])
    if (row["point"] == label) return row;
  FAIL("no point " << label);
  return {};
}

double score_of(const Text& text, const fs::path& heads, const std::string& chunk) {
  return result_of({"score", test::sample_model().string(), "--text-file", text.path.string(), "--gate", heads.string(),
                    "--policy", "hybrid:heads=d", "--chunk", chunk, "--no-dense"})["nll"];
}

/// A directory in which head `head` of the sample's 24 is the only one that is `is_global`, or not.
void write_heads(const fs::path& folder, std::size_t head, bool is_global) {
  HeadSelection selection{.n_layers = 6, .n_kv_heads = 4, .full = std::vector<float>(24, is_global ? 0.0f : 1.0f)};
  selection.full[head] = is_global ? 1.0f : 0.0f;
  export_duo(selection, 4, 32, folder, false);
}

}  // namespace

TEST_CASE("the NLL of a hybrid is that of score under the heads that were exported", "[hybrid]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const TemporaryFolder folder;
  const Text text = text_in(folder);
  const fs::path heads = folder / "heads";
  const json study = result_of(hybrid_words(text.path, text.n_tokens, folder / "h.h5") +
                               Words{"--policy", "sp-kv", "--strategies", "b,d", "--shares", "25%", "--export",
                                     "duo:" + heads.string(), "--export", "json:" + (folder / "heads.json").string(),
                                     "--point", "d:25%"});
  const json d = point(study, "d:6");
  CHECK(d["n_global"] == 6);
  CHECK(d["nll"].get<double>() == Approx(score_of(text, heads, "16")).margin(1e-6));
  CHECK(point(study, "dense")["nll"].get<double>() ==
        Approx(
            result_of({"score", test::sample_model().string(), "--text-file", text.path.string()})["nll"].get<double>())
            .margin(1e-6));
  CHECK(point(study, "gate")["nll"].get<double>() ==
        Approx(result_of({"score", test::sample_model().string(), "--text-file", text.path.string(), "--policy",
                          "sp-kv", "--chunk", "16", "--no-dense"})["nll"]
                   .get<double>())
            .margin(1e-6));
  CHECK(point(study, "b:8")["n_global"] == 8);
  const json beside = json::parse(read_text(heads / "study.json"));
  CHECK(beside["point"] == d);
  const HeadFile own = import_heads(parse_head_target("json:" + (folder / "heads.json").string(), "heads", false), {});
  CHECK(own.selection.full == import_duo(heads).full);
  CHECK(json::parse(own.origin.facts) == beside);
  CHECK(own.origin.value == read_study(test::kvscope(), folder / "h.h5").array("signal_mean")->values);
  // The same table is in the file.
  const StudyTable table = read_study(test::kvscope(), folder / "h.h5");
  CHECK(table.kind == "hybrid");
  CHECK(table.numbers("nll", "h.h5")[3] == point(study, table.column("point")->texts[3])["nll"].get<double>());
  CHECK(table.array("global_heads")->shape ==
        std::vector<std::int64_t>{static_cast<std::int64_t>(table.n_points()), 6, 4});
  CHECK_FALSE(fs::exists(folder / "h.h5.journal"));
}

TEST_CASE("d's heads and their coverage are those of kvscope heads on a run of the same text", "[hybrid]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const TemporaryFolder folder;
  const Text text = text_in(folder);
  const fs::path heads = folder / "heads", trace = folder / "run.h5", longer = folder / "longer.txt";
  // The run feeds a token more than its prompt has, whichever: what lies outside the window is the prompt's.
  std::ofstream(longer) << read_text(text.path) << " and so on";
  const std::string n = std::to_string(std::stoi(text.n_tokens) + 1);
  const json study = result_of(hybrid_words(longer, n, folder / "h.h5") +
                               Words{"--policy", "sp-kv", "--strategies", "d", "--shares", "0.3", "--again", "off",
                                     "--chunk", "1", "--export", "duo:" + heads.string(), "--point", "d:7"});
  const test::Result run =
      kvscope_run({"run", test::sample_model().string(), "--prompt-file", text.path.string(), "--policy", "sp-kv",
                   "--max-tokens", "1", "--trace", trace.string(), "--device", "cpu", "--dtype", "float32"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const test::Result chosen = kvscope_run({"heads", trace.string(), "--strategy", "d", "--count", "7", "--json"});
  INFO(chosen.err);
  const json expected = json::parse(chosen.out);
  CHECK(point(study, "d:7")["coverage"].get<double>() == Approx(expected["coverage"].get<double>()).margin(1e-9));
  const HeadSelection exported = import_duo(heads);
  for (int layer = 0; layer < 6; ++layer)
    for (int head = 0; head < 4; ++head)
      CHECK(exported.full[static_cast<std::size_t>(4 * layer + head)] == expected["full"][layer][head].get<float>());
}

TEST_CASE("the density measured again is that of the gate's scores in a run of the hybrid", "[hybrid]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const TemporaryFolder folder;
  const Text text = text_in(folder);
  const fs::path heads = folder / "heads", trace = folder / "run.h5", longer = folder / "longer.txt";
  std::ofstream(longer) << read_text(text.path) << " and so on";
  const int n = std::stoi(text.n_tokens) + 1, window = 8;
  result_of(hybrid_words(longer, std::to_string(n), folder / "h.h5") +
            Words{"--policy", "wg-kv:window=8", "--strategies", "d", "--shares", "0.1", "--chunk", "1", "--export",
                  "duo:" + heads.string(), "--point", "d:2"});
  const test::Result ran =
      kvscope_run({"run", test::sample_model().string(), "--prompt-file", text.path.string(), "--gate", "wg-kv-0.01",
                   "--gate", heads.string(), "--policy", "hybrid:heads=d,on=threshold", "--max-tokens", "1", "--trace",
                   trace.string(), "--device", "cpu", "--dtype", "float32"});
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  const RunRecord run = TraceReader(test::kvscope(), trace).load(0);
  const StudyTable table = read_study(test::kvscope(), folder / "h.h5");
  const auto& labels = table.texts("point", "h.h5");
  const auto row = static_cast<std::size_t>(std::find(labels.begin(), labels.end(), "d:2") - labels.begin());
  const std::vector<double>&again = table.array("signal_again")->values, &before = table.array("signal_mean")->values;
  int n_changed = 0;
  for (std::size_t head = 0; head < 24; ++head) {
    const auto& scores = run.scores.row(static_cast<int>(head) / 4, static_cast<int>(head) % 4);
    int kept = 0;
    for (int t = 0; t <= n - 1 - window; ++t) kept += scores[static_cast<std::size_t>(t)] > 0.1f;
    CAPTURE(head);
    CHECK(again[24 * row + head] == Approx(static_cast<double>(kept) / (n - window)).margin(1e-9));
    if (head < 4) CHECK(again[24 * row + head] == before[head]);  // nothing lies below layer 0
    n_changed += again[24 * row + head] != before[head];
  }
  CHECK(n_changed > 0);
}

TEST_CASE("the signal nll-alone is what score says of each head alone, and greedy begins with its best", "[hybrid]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const TemporaryFolder folder;
  const Text text = text_in(folder);
  const json study = result_of(hybrid_words(text.path, text.n_tokens, folder / "h.h5") +
                               Words{"--signal", "nll-alone", "--sinks", "4", "--window", "32", "--strategies",
                                     "d,greedy", "--shares", "0.042", "--again", "off"});
  const json first = study["ranking"][0];
  const auto best = static_cast<std::size_t>(4 * first["layer"].get<int>() + first["kv_head"].get<int>());
  write_heads(folder / "alone", best, true);
  const double alone = score_of(text, folder / "alone", "16"), local = point(study, "local")["nll"];
  CHECK(first["signal"].get<double>() == Approx(local - alone).margin(1e-6));
  CHECK(point(study, "greedy:1")["nll"] == point(study, "d:1")["nll"]);
  CHECK(point(study, "d:1")["nll"].get<double>() == Approx(alone).margin(1e-6));
}

TEST_CASE(
    "budgets are shares in proportion to the signal: of nothing all heads are local, of everything the cache is dense",
    "[hybrid]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const TemporaryFolder folder;
  const Text text = text_in(folder);
  const json study = result_of(hybrid_words(text.path, text.n_tokens, folder / "h.h5") +
                               Words{"--policy", "sp-kv", "--strategies", "budgets", "--shares", "0,25%,100%"});
  const auto nll = [&](const std::string& label) { return point(study, label)["nll"].get<double>(); };
  // The same tokens are seen, by thresholds here and by a rule or none there.
  CHECK(nll("budgets:0") == Approx(nll("local")).margin(1e-5));
  CHECK(nll("budgets:24") == Approx(nll("dense")).margin(1e-5));
  CHECK(nll("local") - nll("dense") > 0.002);
  CHECK(point(study, "budgets:24")["density"] == 1.0);
  const json some = point(study, "budgets:6");
  CHECK(some["n_global"].is_null());
  CHECK(some["cache_bytes"].get<double>() > point(study, "local")["cache_bytes"].get<double>());
  const StudyTable table = read_study(test::kvscope(), folder / "h.h5");
  const auto row = static_cast<std::size_t>(std::ranges::find(table.column("point")->texts, "budgets:6") -
                                            table.column("point")->texts.begin());
  const auto of_row = [&](const char* name) {
    const auto first = table.array(name)->values.begin() + static_cast<std::ptrdiff_t>(24 * row);
    return HeadValues(first, first + 24);
  };
  const HeadValues asked = of_row("budget"), kept = of_row("budget_kept");
  CHECK(asked == proportional_shares(table.array("signal_mean")->values, 6));
  CHECK(std::isnan(of_row("global_heads")[0]));
  double density = 0;
  for (std::size_t head = 0; head < 24; ++head) {
    CAPTURE(head, asked[head], kept[head]);
    density += kept[head] / 24;
    CHECK(std::abs(kept[head] - asked[head]) < 0.2);  // solved on the scores of the gate's own lifetimes; sinks count
  }
  CHECK(some["density"].get<double>() == Approx(density).margin(1e-12));
  CHECK(test::kvscope_run(hybrid_words(text.path, text.n_tokens, folder / "x.h5") +
                          Words{"--policy", "sp-kv", "--strategies", "budgets", "--shares", "25%", "--export",
                                "duo:" + (folder / "heads").string(), "--point", "budgets:6"})
            .exit_code == 1);
}

TEST_CASE("a study goes on from whatever its journal has, to the same bytes", "[hybrid]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const TemporaryFolder folder;
  const Text text = text_in(folder);
  const fs::path journal = folder / "journal", study = folder / "h.h5";
  const Words words = hybrid_words(text.path, "70", study) +
                      Words{"--policy", "wg-kv:window=32", "--strategies",   "a,c,d",      "--shares", "25%", "--seeds",
                            "4",        "--journal",       journal.string(), "--overwrite"};
  result_of(words);
  const std::string whole = read_text(study), lines = read_text(journal);
  REQUIRE(test::count_lines(lines) > 8);
  for (const std::size_t cut : {std::size_t{5}, lines.size() / 3, lines.size() - 2}) {
    fs::remove(study);
    std::ofstream(journal, std::ios::trunc) << lines.substr(0, cut);
    result_of(words);
    CHECK(read_text(study) == whole);
    CHECK(test::count_lines(read_text(journal)) == test::count_lines(lines));
  }
  const std::string last = lines.substr(lines.rfind('\n', lines.size() - 2) + 1);
  for (const std::string& added :
       {std::string("{}\n"), last, std::string(R"({"key":"x","values":[1],"note":2})") + "\n",
        std::string(R"({"key":"x","values":[]})") + "\n"}) {
    std::ofstream(journal, std::ios::trunc) << lines << added;
    const test::Result bad = kvscope_run(words + Words{"--device", "cpu", "--dtype", "float32", "--quiet"});
    CAPTURE(added, bad.err);
    CHECK(bad.exit_code == 2);
    CHECK(bad.err.find("journal, line " + std::to_string(test::count_lines(lines) + 1)) != std::string::npos);
    CHECK(bad.err.find("hint: remove that line") != std::string::npos);
  }
  std::ofstream(journal, std::ios::trunc) << lines;
  Words other = words;
  other[7] = "69";  // --length
  const test::Result refused = kvscope_run(other + Words{"--device", "cpu", "--dtype", "float32", "--quiet"});
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find("journal: length: measured with 70; expected 69") != std::string::npos);
}

TEST_CASE("a study that is stopped leaves a journal and no study", "[hybrid]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const auto [stopped_by, code] = GENERATE(std::pair("TERM", 143), std::pair("KILL", 137));
  const TemporaryFolder folder;
  const Text text = text_in(folder);
  std::string command;
  for (const std::string& word :
       Words{test::kvscope().string()} + hybrid_words(text.path, text.n_tokens, folder / "h.h5"))
    command += "'" + word + "' ";
  const fs::path journal = folder / "h.h5.journal";
  // Stopped when three passes are in the journal, of some forty: seconds would depend on the machine.
  const std::string script = command + "--signal nll --window 32 --device cpu --dtype float32 & pid=$!\n" +
                             "until [ $(cat '" + journal.string() +
                             "' 2>/dev/null | wc -l) -gt 3 ]; do sleep 0.02; done\n" + "kill -" + stopped_by +
                             " $pid; wait $pid";
  const test::Result result = test::run({.argv = {"/bin/sh", "-c", script}});
  INFO(result.err);
  CHECK(result.exit_code == code);
  CHECK_FALSE(fs::exists(folder / "h.h5"));
  CHECK(test::count_lines(read_text(journal)) > 3);
  if (code == 143) CHECK(result.err.find("run the same command to continue") != std::string::npos);
}

TEST_CASE("a hybrid study that cannot be is refused in a line, and nothing is written", "[hybrid]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const TemporaryFolder folder;
  const fs::path text = folder / "text.txt";
  std::ofstream(text) << read_text(test::source_folder() / "samples/prompts/heldout.txt").substr(3000, 700);
  const fs::path plain = folder / "plain";  // the sample without its scorer, and without a name that gates go by
  test::link_sample_model(plain, test::kWholeModel);
  export_duo({.n_layers = 2, .n_kv_heads = 3, .full = std::vector<float>(6, 1)}, 4, 64, folder / "foreign", false);
  struct Case {
    Words words;
    int code;
    const char* said;
  };
  const Case cases[] = {
      {{"--strategies", "greedy", "--shares", "60%"}, 1, "at most 12 of 24"},
      {{"--strategies", "capped", "--shares", "80%", "--cap", "3"}, 1, "under a cap of 3"},
      {{"--shares", "140%"}, 1, "--shares"},
      {{"--bytes", "1000"}, 1, "with every head local"},
      {{"--strategies", "e"}, 1, "a, b, c, d, capped, layers, greedy and budgets"},
      {{"--signal", "taste"}, 1, "output-error"},
      {{"--signal", "file:" + (folder / "foreign").string(), "--strategies", "d"},
       2,
       "expected 6 x 4 (layers x KV heads)"},
      {{"--policy", "h2o:budget=100"}, 1, "a policy with a gate"},
      {{"--export", "duo:" + (folder / "out").string()}, 1, "--point"},
      {{"--export", "duo:" + (folder / "out").string(), "--point", "d:23"}, 1, "a point of this study: dense, local"},
      {{"--length", "60"}, 1, "more than sinks and window"},
      {{"--tasks", "fact_recall"}, 2, "tasks of up to"},
      {{"--pieces", "40"}, 1, "40 pieces of 120"},
  };
  const auto refused = [&](const std::string& model, const Words& more) {
    Words words = {"hybrid", model, "--texts", text.string(), "-o", (folder / "h.h5").string(), "--quiet"};
    for (const auto& [name, value] : {std::pair("--pieces", "1"), std::pair("--length", "120")})
      if (std::find(more.begin(), more.end(), name) == more.end()) words = words + Words{name, value};
    return kvscope_run(words + more);
  };
  for (const Case& c : cases) {
    const test::Result result = refused(test::sample_model().string(), c.words);
    CAPTURE(c.words, result.err);
    CHECK(result.exit_code == c.code);
    CHECK(result.err.find(c.said) != std::string::npos);
    CHECK(test::count_lines(result.err) == 1);
  }
  const test::Result no_gate = refused(plain.string(), {});
  CHECK(no_gate.exit_code == 2);
  CHECK(no_gate.err.find("no gate of this model distinguishes heads") != std::string::npos);
  std::ofstream(folder / "h.h5") << "mine";
  CHECK(refused(test::sample_model().string(), {}).exit_code == 2);
  CHECK(read_text(folder / "h.h5") == "mine");
  fs::remove(folder / "h.h5");
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.insert(entry.path().filename().string());
  CHECK(names == std::set<std::string>{"text.txt", "plain", "foreign"});
}
