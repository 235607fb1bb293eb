// Traces of versions before ours: they open, go on and merge as what they are.

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/support/error.h"
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

RunRecord scored_run(std::uint64_t seed, int prompt) {
  RunRecord run = formula_run(seed);
  run.prompt_index = prompt;
  run.scorer = {.kind = "kvpop_mlstm", .delay = 4, .text = "kvpop mlstm, delay 4"};
  return run;
}

void write_trace(const fs::path& path, int version, const std::vector<RunRecord>& runs, const CaptureInfo& capture,
                 bool pack) {
  trace::LiveTrace live(path, {.model = runs[0].model, .capture = capture, .planned_runs = 2, .version = version}, 240,
                        false);
  for (const RunRecord& run : runs) live.add(run);
  if (pack) live.pack(path);
  live.close();
}

/// What a file of that version can say of a run.
RunRecord as_of(RunRecord run, int version) {
  if (version < 2) run.local_heads.clear();
  if (version < 6) run.chunk = 0;
  if (version < 3) {
    run.future = FutureKinds();
    run.oracle.all_kinds = false;
  }
  return run;
}

void check_runs(const fs::path& path, const std::vector<RunRecord>& runs) {
  REQUIRE(inspect_trace(path).n_runs == static_cast<int>(runs.size()));
  for (int i = 0; i < static_cast<int>(runs.size()); ++i) {
    CHECK(run_difference(load_trace(path, i), runs[i]) == "");
    CHECK(run_difference(TraceReader(in_build("tests/core/trace_kill_writer"), path).load(i), runs[i]) == "");
  }
}

}  // namespace

TEST_CASE("trace version: version 1 says by a sentence what scored a run, and does not say which heads are local",
          "[core][trace][version]") {
  const ScratchFolder folder;
  RunRecord run = scored_run(1, 0);
  run.local_heads = {0, 1, 1, 0, 0, 1};
  const bool pack = GENERATE(false, true);
  write_trace(folder / "new.h5", 2, {run}, {}, pack);
  check_runs(folder / "new.h5", {as_of(run, 2)});
  write_trace(folder / "old.h5", 1, {run}, {}, pack);
  CHECK(inspect_trace(folder / "old.h5").version == 1);
  check_runs(folder / "old.h5", {as_of(run, 1)});
}

TEST_CASE("trace version: before version 3 no head had a decay of its own", "[core][trace][version]") {
  const ScratchFolder folder;
  RunRecord run = scored_run(1, 0);
  run.log_gamma = {-0.5f, 0, -0.25f, -1e-6f, 0, -2};
  const bool pack = GENERATE(false, true);
  write_trace(folder / "new.h5", 3, {run}, {}, pack);
  check_runs(folder / "new.h5", {as_of(run, 3)});
  CHECK(load_trace(folder / "new.h5", 0).geometry(1, 0).log_gamma == -0.25f);
  write_trace(folder / "old.h5", 2, {run}, {}, pack);
  run.log_gamma.clear();
  check_runs(folder / "old.h5", {as_of(run, 2)});
}

TEST_CASE("trace version: before version 5 no head had a threshold that was solved", "[core][trace][version]") {
  const ScratchFolder folder;
  RunRecord run = scored_run(1, 0);
  run.thresholds = {-0.5f, 0, 0.25f, 1e-6f, 0, 2};
  const bool pack = GENERATE(false, true);
  write_trace(folder / "new.h5", 5, {run}, {}, pack);
  check_runs(folder / "new.h5", {as_of(run, 5)});
  write_trace(folder / "old.h5", 4, {run}, {}, pack);
  CHECK(inspect_trace(folder / "old.h5").version == 4);
  run.thresholds.clear();
  check_runs(folder / "old.h5", {as_of(run, 4)});
}

TEST_CASE("trace version: before version 6 the command line alone says after how many tokens the policy acted",
          "[core][trace][version]") {
  const ScratchFolder folder;
  RunRecord run = scored_run(1, 0);
  run.chunk = 16;
  const bool pack = GENERATE(false, true);
  write_trace(folder / "new.h5", 6, {run}, {}, pack);
  check_runs(folder / "new.h5", {run});
  const auto old_chunk = [&](const std::string& command_line) {
    run.command_line = command_line;
    fs::remove(folder / "old.h5");
    write_trace(folder / "old.h5", 5, {run}, {}, pack);
    return load_trace(folder / "old.h5", 0).chunk;
  };
  CHECK(old_chunk("kvscope run m --policy full --chunk 16 --prompt 'a --chunk 3'") == 16);
  CHECK(old_chunk("kvscope run m --policy full --prompt 'a --chunk 3'") == 0);
  CHECK(old_chunk("kvscope run m --chunk 99999999999") == 0);
  CHECK(old_chunk("") == 0);
}

TEST_CASE("trace version: before version 3 nothing is said of what eviction did to the output",
          "[core][trace][version][output_error]") {
  const ScratchFolder folder;
  RunRecord run = random_run(1, {.prompt_len = 40, .n_new = 20, .output_error = true});
  const bool pack = GENERATE(false, true);
  write_trace(folder / "new.h5", 3, {run}, {}, pack);
  check_runs(folder / "new.h5", {run});
  write_trace(folder / "old.h5", 2, {run}, {}, pack);
  CHECK(inspect_trace(folder / "old.h5").version == 2);
  run.output_error = OutputError();
  check_runs(folder / "old.h5", {as_of(run, 2)});
}

TEST_CASE("trace version: a trace of version 1 goes on as one, in place or with more room", "[core][trace][version]") {
  const ScratchFolder folder;
  const RunRecord first = scored_run(1, 0), second = scored_run(2, 1);
  write_trace(folder / "old.h5", 1, {first}, {}, GENERATE(false, true));
  TraceWriter writer(folder / "old.h5", first.model, {.resume = true, .max_runs = GENERATE(2, 5), .max_positions = 60});
  writer.add(second);
  writer.finish();
  CHECK(inspect_trace(folder / "old.h5").version == 1);
  check_runs(folder / "old.h5", {as_of(first, 1), as_of(second, 1)});
}

TEST_CASE("trace version: shards of older versions are copied into a trace of this one", "[core][trace][version]") {
  const ScratchFolder folder;
  const std::vector<RunRecord> runs = {scored_run(1, 0), scored_run(2, 1)};
  const int second = GENERATE(1, 2, trace::kVersion);
  const std::vector<fs::path> shards = {folder / "s0.h5", folder / "s1.h5"};
  for (int shard = 0; shard < 2; ++shard)
    write_trace(shards[shard], shard == 0 ? 1 : second, {runs[shard]},
                {.n_prompts = 2, .shard = shard, .n_shards = 2, .prompts_hash = "0", .request = ""}, true);
  merge_traces(shards, folder / "copy.h5", {.copy = true});
  CHECK(inspect_trace(folder / "copy.h5").version == trace::kVersion);
  check_runs(folder / "copy.h5", {as_of(runs[0], 1), as_of(runs[1], second)});
  CHECK_THROWS_WITH(merge_traces(shards, folder / "virtual.h5", {}), Catch::Contains("a trace of version 1"));
}

TEST_CASE("trace version: before version 3 agg=mean meant logarithms and mass=sum was stored as sums",
          "[core][trace][version]") {
  const ScratchFolder folder;
  RunRecord run = random_run(3);
  run.oracle = OracleSpec::parse("agg=logmean,mass=sum,kinds=one");
  write_trace(folder / "old.h5", 2, {run}, {}, true);
  const RunRecord back = load_trace(folder / "old.h5", 0);
  CHECK(back.oracle == run.oracle);
  const std::vector<float>&was = run.future_mass.row(1, 2), &is = back.future_mass.row(1, 2);
  for (std::size_t t = 0; t < was.size(); ++t) {
    if (!std::isnan(was[t])) REQUIRE(is[t] == Approx(was[t]).epsilon(1e-6));
  }
  // Numbers of the old definition are not written beside those that the file has.
  CHECK(trace::old_numbers(2) != "");
  CHECK(trace::old_numbers(trace::kVersion) == "");
}

TEST_CASE("trace version: before version 4 the log of least attention said the newcomer's score, not the next least's",
          "[core][trace][version]") {
  const ScratchFolder folder;
  RunRecord run = random_run(3, {.policy = "full"});
  run.policy = PolicySpec::parse("h2o:budget=80,window=32");
  run.contests = {{130, 1, 2, 129, 40, 0.987f, 0.95f, 40}};
  run.evict_at.row(1, 2)[40] = 130;
  write_trace(folder / "new.h5", trace::kVersion, {run}, {}, true);
  check_runs(folder / "new.h5", {run});
  const int version = GENERATE(2, 3);
  write_trace(folder / "old.h5", version, {run}, {}, true);
  const RunRecord old = load_trace(folder / "old.h5", 0);
  REQUIRE(old.contests.size() == 1);
  CHECK(std::isnan(old.contests[0].newcomer_effective));  // the newcomer's would be read as the next least's
  CHECK(old.contests[0].boundary_effective == 0.95f);
}
