// Traces of versions before ours: they open as what they say, and go on and merge as traces of this version. The files in
// golden/ were written by the programs that had these versions.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "engine/core/record/asked_json.h"
#include "engine/core/record/command_line.h"
#include "engine/core/support/error.h"
#include "engine/core/support/shell_quote.h"
#include "engine/core/trace/old_command.h"
#include "engine/core/trace/run_versions.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_live.h"
#include "engine/core/trace/trace_merge.h"
#include "tests/core/trace_support.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

namespace fs = std::filesystem;

fs::path old_trace(int version) { return in_source("tests/core/golden/trace-v" + std::to_string(version) + ".h5"); }

constexpr const char* kCommands[] = {
    "kvscope run formula --policy kvpop:budget=16,sinks=2,window=4 --max-tokens 40 --seed 1 --raw --stop '--chat' --chunk "
    "1 --prompt 'it'\\''s kvscope run --answer-ids 1 --chunk 3 --chat' --gate 'a gate'",
    "kvscope run formula --policy kvpop:budget=16,sinks=2,window=4 --max-tokens 40 --seed 2 --raw --prompt-ids 1,2 "
    "--answer-ids 3,4 --title 'prompt 2'"};

/// What the two runs of the file of that version say.
std::vector<RunRecord> old_runs(int version) {
  std::vector<RunRecord> runs = {formula_run(1), formula_run(2)};
  RunRecord &a = runs[0], &b = runs[1];
  a.prompt_text = "it's kvscope run --answer-ids 1 --chunk 3 --chat";
  b.oracle = OracleSpec::parse("agg=logmean,mass=sum,kinds=one");
  // What differed between heads had a column each, of the version it came with.
  if (version >= 2) make_local(a, {0, 1, 1, 0, 0, 1});
  if (version >= 3) set_heads(a, &HeadRule::log_gamma, std::vector<float>{-0.5f, 0, -0.25f, -1e-6f, 0, -2});
  if (version >= 5) set_heads(b, &HeadRule::threshold, std::vector<float>{-0.5f, 0, 0.25f, 1e-6f, 0, 2});
  for (int i = 0; i < 2; ++i) {
    RunRecord& run = runs[static_cast<std::size_t>(i)];
    run.prompt_index = i;
    run.scorer = {.kind = "kvpop_mlstm",
                  .delay = 4,
                  .text = version < 2 ? "kvpop mlstm, delay 4" : "KVpop mLSTM, delay 4, gate kvpop-mlstm",
                  .gate = version < 2 ? "" : "kvpop-mlstm"};
    if (version < 3) {
      run.future = FutureKinds();
      run.oracle.all_kinds = false;
    }
    if (version < 6) run.chunk = trace::chunk_of_command(kCommands[i]);
    run.asked = trace::asked_of_command(run, kCommands[i]);
  }
  return runs;
}

/// Sums that became means again are rounded once more.
void check_runs(const fs::path& path, const std::vector<RunRecord>& expected, int version) {
  REQUIRE(inspect_trace(path).n_runs >= static_cast<int>(expected.size()));
  for (int i = 0; i < static_cast<int>(expected.size()); ++i) {
    RunRecord run = load_trace(path, i);
    const RunRecord& wanted = expected[static_cast<std::size_t>(i)];
    if (version < 3 && run.oracle.mass == OracleMass::sum) {
      const std::vector<float>&was = wanted.future_mass.row(1, 1), &is = run.future_mass.row(1, 1);
      for (std::size_t t = 0; t < was.size(); ++t) {
        if (!std::isnan(was[t])) REQUIRE(is[t] == Approx(was[t]).epsilon(1e-6));
      }
      run.future_mass = wanted.future_mass;
    }
    CAPTURE(version, i);
    CHECK(run_difference(run, wanted) == "");
  }
}

TraceWriter::Options resumed(int max_runs) {
  return {.resume = true,
          .max_runs = max_runs,
          .max_positions = 60,
          .capture = {.n_prompts = 3, .shard = 0, .n_shards = 1, .prompts_hash = "0", .request = ""}};
}

}  // namespace

TEST_CASE("trace version: traces of versions 1 to 8 open as what they say", "[core][trace][version]") {
  const int version = GENERATE(range(1, 9));
  CHECK(inspect_trace(old_trace(version)).version == version);
  check_runs(old_trace(version), old_runs(version), version);
  TraceReader child(in_build("tests/core/trace_kill_writer"), old_trace(version));
  CHECK(child.load(0).ids == formula_run(1).ids);
}

TEST_CASE("trace version: the words of an old command say what was asked, whatever the prompt says",
          "[core][trace][version]") {
  const int version = GENERATE(range(1, 9));
  const RunRecord drawn = load_trace(old_trace(version), 0), replay = load_trace(old_trace(version), 1);
  REQUIRE((drawn.asked && replay.asked));
  CHECK(drawn.asked->origin.kind == RunOrigin::Kind::drawn);
  CHECK(drawn.asked->by_text);
  CHECK(drawn.asked->request.prompt == "it's kvscope run --answer-ids 1 --chunk 3 --chat");
  CHECK(drawn.asked->request.raw);
  CHECK(drawn.asked->request.stop == std::vector<std::string>{"--chat"});
  CHECK(drawn.asked->gates == std::vector<GateRef>{{.given = "a gate"}});
  CHECK(drawn.chunk == 1);
  CHECK(replay.asked->origin.kind == RunOrigin::Kind::replay);
  CHECK_FALSE(replay.asked->by_text);
  CHECK(replay.asked->request.answer_ids->size() == static_cast<std::size_t>(replay.n_tokens() - replay.prompt_len));
  CHECK(drawn.asked->key.size() == 16);
  CHECK(drawn.asked->key != replay.asked->key);
  const auto words = shell_words(command_line(drawn));
  CHECK(std::ranges::count(words, "--answer-ids") == 0);
  CHECK(std::ranges::count(words, drawn.prompt_text) == 1);
}

TEST_CASE("trace version: shell_words() is the inverse of shell_quote()", "[core]") {
  const std::vector<std::string> words = {
      "plain", "", "two words", "it's", "''", "\"quoted\"", "back\\slash", "line\nbreak", "--x=y", "é", "$HOME"};
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quote(word);
  CHECK(shell_words(line) == words);
  CHECK(shell_words("").empty());
  CHECK(shell_words("  a  'b c'd ") == std::vector<std::string>{"a", "b cd"});
}

TEST_CASE("trace version: an old trace goes on as one of this version", "[core][trace][version]") {
  const ScratchFolder folder;
  const int version = GENERATE(range(1, 9));
  const fs::path path = folder / "old.h5";
  fs::copy_file(old_trace(version), path);
  RunRecord third = formula_run(3);
  third.prompt_index = 2;
  TraceWriter writer(path, third.model, resumed(GENERATE(3, 5)));
  CHECK(inspect_trace(path).version == trace::kVersion);
  CHECK(inspect_trace(path).n_runs == 2);
  writer.add(third);
  writer.finish();
  CHECK(inspect_trace(path).version == trace::kVersion);
  check_runs(path, old_runs(version), version);
  CHECK(run_difference(load_trace(path, 2), third) == "");
}

TEST_CASE("trace version: shards of older versions are copied into a trace of this one", "[core][trace][version]") {
  const ScratchFolder folder;
  const int version = GENERATE(1, 2, 7, 8);
  const fs::path shard = folder / "s0.h5";
  fs::copy_file(old_trace(version), shard);
  const std::vector<fs::path> shards = {shard};
  merge_traces(shards, folder / "copy.h5", {.copy = true, .allow_missing = true});
  CHECK(inspect_trace(folder / "copy.h5").version == trace::kVersion);
  check_runs(folder / "copy.h5", old_runs(version), version);
  CHECK_THROWS_WITH(merge_traces(shards, folder / "virtual.h5", {.allow_missing = true}),
                    Catch::Contains("a trace of version " + std::to_string(version)));
}

TEST_CASE("trace version: before version 4 the log of least attention said the newcomer's score, not the next least's",
          "[core][trace][version]") {
  RunRecord run = random_run(3, {.policy = "full"});
  run.policy = PolicySpec::parse("h2o:budget=80,window=32");
  run.contests = {{130, 1, 2, 129, 40, 0.987f, 0.95f, 40}};
  RunRecord today = run;
  trace::upgrade(run, GENERATE(1, 2, 3), "");
  CHECK(std::isnan(run.contests[0].newcomer_effective));  // the newcomer's would be read as the next least's
  CHECK(run.contests[0].boundary_effective == 0.95f);
  trace::upgrade(today, 4, "");
  CHECK(today.contests[0].newcomer_effective == 0.987f);
}

TEST_CASE("trace version: numbers of an old definition are named", "[core][trace][version]") {
  CHECK(trace::old_numbers(2) != "");
  CHECK(trace::old_numbers(trace::kVersion) == "");
}

TEST_CASE("trace version: version 7 keeps all of what was asked", "[core][trace][version]") {
  const ScratchFolder folder;
  RunRecord run = formula_run(1);
  run.prompt_index = 0;
  run.scorer = {.kind = "wg_kv", .delay = 0, .text = "WG-KV, delay 0, gate wg-kv-0.01", .gate = "wg-kv-0.01"};
  run.policy = PolicySpec::parse("threshold:density=30%,sinks=2,window=4");
  set_heads(run, &HeadRule::threshold, std::vector<float>{-0.5f, 0, 0.25f, 1e-6f, 0, 2});
  set_heads(run, &HeadRule::top_k, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6});
  Asked asked;
  asked.request.prompt = run.prompt_text;
  asked.request.policy = run.policy;
  asked.request.raw = false;
  asked.request.chat = {.thinking = false, .date = "26 Jul 2024"};
  asked.request.messages = {{"system", "a"}, {"user", run.prompt_text}};
  asked.request.stop = {"x"};
  asked.request.thresholds = GENERATE(std::vector<float>{}, std::vector<float>{-0.5f, 0, 0.25f, 1e-6f, 0, 2},
                                      std::vector<float>{1, -INFINITY});
  asked.request.budgets = GENERATE(std::vector<std::int32_t>{}, std::vector<std::int32_t>{7, 8, 9});
  asked.request.prompt_ids = GENERATE(0, 1) == 0 ? std::vector<std::int32_t>{1, 2, 3}  // not the run's own
                                                 : std::vector<std::int32_t>(run.ids.begin(), run.ids.begin() + 5);
  asked.request.answer_ids = GENERATE(std::vector<std::int32_t>{}, std::vector<std::int32_t>{7, 8});
  asked.request.draw_on = true;
  asked.by_text = false;
  asked.origin = {.kind = GENERATE(RunOrigin::Kind::fork, RunOrigin::Kind::resumed),
                  .of = "0123456789abcdef",
                  .title = "H2O 25 %",
                  .q = 7};
  asked.gates = {{.given = "a b", .name = "b", .hash = "00"}};
  asked.key = key_of(asked, "w", "t");
  run.asked = std::make_shared<const Asked>(asked);
  save_trace(folder / "new.h5", run, false);
  const RunRecord back = load_trace(folder / "new.h5", 0);
  REQUIRE(back.asked);
  CHECK(asked_text(back) == asked_text(run));
  CHECK(back.scorer == run.scorer);
  CHECK(back.asked->origin == asked.origin);
  CHECK(back.asked->gates == asked.gates);
  CHECK(back.asked->request.thresholds == asked.request.thresholds);
  CHECK(back.asked->request.budgets == asked.request.budgets);
  CHECK(back.asked->request.prompt_ids == asked.request.prompt_ids);
  CHECK(back.asked->request.answer_ids == asked.request.answer_ids);
  CHECK(key_of(*back.asked, "w", "t") == asked.key);
  CHECK(command_line(back) == command_line(run));
}
