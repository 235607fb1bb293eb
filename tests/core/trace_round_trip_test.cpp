// What is written comes back, and comes back as the same bytes.

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/version.h"
#include "engine/core/trace/prepared_run.h"
#include "engine/core/trace/trace_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Matchers::Contains;

namespace {

std::string bytes_of(const std::filesystem::path& path) { return read_file(path, std::size_t{1} << 30); }

/// A run that stopped early, with everything optional missing or half there.
RunRecord failed_run() {
  RunRecord run = random_run(5);
  run.status = RunStatus::failed;
  run.message = "out of memory at layer 1\nsecond line \xff";
  run.logprobs.resize(100);
  run.scores.row(0, 1).resize(90);
  run.scores.row(1, 2).clear();
  run.future_mass = {};
  run.future = {};
  run.oracle_horizon = 0;
  run.recall_so_far.assign(6, 0.25f);
  run.recall_so_far[3] = std::numeric_limits<float>::quiet_NaN();
  run.timings.instrumented = false;
  fill_rows(run);
  return run;
}

std::vector<RunRecord> all_kinds_of_runs() {
  RunRecord nothing;
  nothing.model = random_run(1).model;
  RunRecord impossible = nothing;  // failed because its budget is smaller than its window
  impossible.policy = PolicySpec::parse("kvpop:budget=8,sinks=4,window=16");
  impossible.n_positions = 100;
  impossible.status = RunStatus::failed;
  RunRecord huge_seed = random_run(7, {.prompt_len = 1, .n_new = 1});
  huge_seed.sampling.seed = UINT64_MAX;
  RunRecord selective = random_run(8, {.page_reads = true, .n_changes = 3});
  selective.oracle =
      OracleSpec::parse("agg=logmean,mass=rms,weight=output,capacity=pooled,budget=25%,lse=sparse,ahead=16");
  make_local(selective, {0, 1, 0, 0, 1, 1});
  selective.heads[3].locality = Locality::model;
  set_heads(selective, &HeadRule::log_gamma, std::vector<float>{0, -0.5f, -1e-6f, 0, -0.125f, -3});
  set_heads(selective, &HeadRule::threshold,
            std::vector<float>{0.5f, -0.25f, 1e-6f, std::numeric_limits<float>::infinity(), 0, 0.37f});
  selective.page_size = 32;
  set_heads(selective, &HeadRule::top_k, std::vector<std::int32_t>{0, 1, 2, 300, 0, 7});
  auto runs = std::vector{random_run(1),
                          random_run(2, {.last_token_fed = false}),
                          failed_run(),
                          nothing,
                          impossible,
                          random_run(3, {.oracle = false}),
                          huge_seed,
                          selective,
                          random_run(4, {.prompt_len = 3000, .n_new = 2500}),
                          random_run(9, {.page_reads = true}),
                          random_run(10, {.output_error = true, .last_token_fed = false}),
                          random_run(11, {.policy = "kvpop:budget=40,window=16,capacity=pooled"})};
  for (auto& run : runs) run.model = runs[0].model;
  runs[7].scorer = {.kind = "another_scorer", .text = "another scorer"};  // a run says by itself what scored it
  for (std::size_t i = 1; i < runs.size(); ++i)
    runs[i].prompt_index = 1000 - static_cast<int>(i);  // the first has none
  return runs;
}

}  // namespace

TEST_CASE("trace: numbers that compression cannot make smaller come back equal", "[core][trace]") {
  const ScratchFolder folder;
  RunRecord run = random_run(4, {.prompt_len = 3000, .n_new = 2500});
  std::mt19937 dice(1);
  for (int layer = 0; layer < run.model.n_layers; ++layer)
    for (int head = 0; head < run.model.n_kv_heads; ++head)
      for (float& score : run.scores.row(layer, head)) {
        do score = std::bit_cast<float>(static_cast<std::uint32_t>(dice()));
        while (!std::isfinite(score));
      }
  save_trace(folder / "run.h5", run, false);
  CHECK(run_difference(run, load_trace(folder / "run.h5")) == "");
}

TEST_CASE("trace: a saved run comes back equal in every field", "[core][trace]") {
  const ScratchFolder folder;
  const int which = GENERATE(range(0, 12));
  CAPTURE(which);
  const RunRecord run = all_kinds_of_runs()[which];
  save_trace(folder / "run.h5", run, false);
  const RunRecord loaded = load_trace(folder / "run.h5");
  CHECK(run_difference(run, loaded) == "");
  CHECK(loaded.n_queries == run.n_queries);
  CHECK(loaded.policy == run.policy);
  CHECK(loaded.reads == run.reads);
  CHECK(loaded.changes == run.changes);
  CHECK(loaded.oracle == run.oracle);
  const TraceInfo info = inspect_trace(folder / "run.h5");
  CHECK(info.status == "complete");
  CHECK(info.n_runs == 1);
  CHECK(info.model.name == run.model.name);
  CHECK(info.page_reads == static_cast<std::int64_t>(run.reads.size()));
  CHECK(info.changed_runs == (run.changes.empty() ? 0 : 1));
  CHECK(info.git_revision == git_revision());
}

TEST_CASE("trace: many runs of many kinds stand in one file, before and after finish", "[core][trace]") {
  const ScratchFolder folder;
  const auto path = folder / "many.h5";
  const auto runs = all_kinds_of_runs();
  const auto check_all = [&](int n) {
    REQUIRE(inspect_trace(path).n_runs == n);
    for (int i = 0; i < n; ++i) {
      CAPTURE(i);
      CHECK(run_difference(runs[i], load_trace(path, i)) == "");
    }
  };
  TraceWriter writer(path, runs[0].model, {.max_runs = 12, .max_positions = 5500});
  check_all(0);  // a reader may look while the writer writes
  for (std::size_t i = 0; i < runs.size(); ++i) {
    writer.add(runs[i]);
    CHECK(writer.committed() == static_cast<int>(i) + 1);
    CHECK(inspect_trace(path).status == "partial");
    check_all(static_cast<int>(i) + 1);
  }
  writer.finish();
  check_all(static_cast<int>(runs.size()));
  const TraceInfo info = inspect_trace(path);
  CHECK(info.status == "complete");
  CHECK(info.planned_runs == 12);
  CHECK_THROWS_AS(load_trace(path, static_cast<int>(runs.size())), Error);
  CHECK_THROWS_AS(load_trace(path, -1), Error);
  CHECK_THROWS_AS(writer.add(runs[0]), Error);
}

TEST_CASE("trace: the same runs give the same bytes", "[core][trace]") {
  const ScratchFolder folder;
  const auto runs = all_kinds_of_runs();
  for (const char* name : {"a.h5", "b.h5"}) {
    TraceWriter writer(folder / name, runs[0].model, {.max_runs = 12, .max_positions = 5500});
    for (const auto& run : runs) writer.add(run);
    writer.finish();
  }
  CHECK(bytes_of(folder / "a.h5") == bytes_of(folder / "b.h5"));
  save_trace(folder / "c.h5", runs[0], false);
  save_trace(folder / "d.h5", runs[0], false);
  CHECK(bytes_of(folder / "c.h5") == bytes_of(folder / "d.h5"));
  CHECK(bytes_of(folder / "c.h5") != bytes_of(folder / "a.h5"));
}

TEST_CASE("trace: writing leaves the trace and nothing else in the folder", "[core][trace]") {
  const ScratchFolder folder;
  save_trace(folder / "run.h5", random_run(1), false);
  {
    TraceWriter writer(folder / "two.h5", random_run(1).model, {.max_runs = 2, .max_positions = 200});
    writer.add(random_run(1));
    writer.finish();
  }
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    CAPTURE(entry.path().string());
    CHECK(entry.path().extension() == ".h5");
    ++n;
  }
  CHECK(n == 2);
}

TEST_CASE("trace: an existing file is replaced only when asked, and only by a whole one", "[core][trace]") {
  const ScratchFolder folder;
  const auto path = folder / "run.h5";
  save_trace(path, random_run(1), false);
  CHECK_THROWS_AS(save_trace(path, random_run(2), false), Error);
  CHECK_THROWS_AS(TraceWriter(path, random_run(2).model, {.max_positions = 200}), Error);
  CHECK(run_difference(load_trace(path), random_run(1)) == "");

  RunRecord broken = random_run(2);
  broken.ids.back() = broken.model.vocab_size;  // cannot be read back, so it is not written
  CHECK_THROWS_AS(save_trace(path, broken, true), Error);
  CHECK(run_difference(load_trace(path), random_run(1)) == "");

  save_trace(path, random_run(2), true);
  CHECK(run_difference(load_trace(path), random_run(2)) == "");
}

TEST_CASE("trace: a place that cannot hold a file is an error that names it", "[core][trace]") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "taken.h5");
  std::filesystem::create_symlink("/dev/null", folder / "device.h5");
  const auto path = folder / GENERATE(as<std::string>(), "no such folder/run.h5", "taken.h5", "device.h5");
  CAPTURE(path.string());
  for (const bool single : {false, true}) {
    try {
      if (single) {
        save_trace(path, random_run(1), true);
      } else {
        TraceWriter(path, random_run(1).model, {.overwrite = true, .max_positions = 200});
      }
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find(folder.path().filename().string()) != std::string::npos);
    }
  }
}

TEST_CASE("trace: a run of another model, too long a run and one run too many are refused, and the rest stays",
          "[core][trace]") {
  const ScratchFolder folder;
  const auto path = folder / "run.h5";
  const RunRecord run = random_run(1);
  TraceWriter writer(path, run.model, {.max_runs = 2, .max_positions = 180});
  writer.add(run);
  RunRecord other = run;
  other.model.n_layers = 1;
  CHECK_THROWS_AS(writer.add(other), Error);
  RunRecord longer = random_run(2, {.n_new = 100});
  longer.model = run.model;
  CHECK_THROWS_AS(writer.add(longer), Error);
  CHECK(writer.committed() == 1);
  writer.add(random_run(3));
  CHECK_THROWS_AS(writer.add(random_run(4, {.prompt_len = 2, .n_new = 1})), Error);
  writer.finish();
  CHECK(inspect_trace(path).n_runs == 2);
  CHECK(run_difference(load_trace(path, 1), random_run(3)) == "");
}

TEST_CASE("trace: a record that does not hang together is refused before anything is written", "[core][trace]") {
  const ScratchFolder folder;
  const auto path = folder / "run.h5";
  RunRecord run = random_run(1, {.page_reads = true, .n_changes = 2});
  const int damage = GENERATE(range(0, 12));
  CAPTURE(damage);
  switch (damage) {
    case 0:
      run.ids[3] = -1;
      break;
    case 1:
      run.contests[0].newcomer = run.n_tokens();
      break;
    case 2:
      run.contests.back().q = 0;
      break;
    case 3:
      run.scores.row(0, 0).push_back(0);
      break;
    case 4:
      run.evict_at.row(1, 2)[7] = -5;
      break;
    case 5:
      run.scores = HeadSeries<float>(5, 5);
      break;
    case 6:
      run.prompt_len = run.n_tokens() + 1;
      break;
    case 7:
      run.recall_so_far.assign(1, 0);
      break;
    case 8:
      run.reads[0].q = run.n_tokens();
      break;
    case 9:
      run.reads.back().pages.assign(1, -1);
      break;
    case 10:
      run.reads[2].kv_head = 3;
      break;
    case 11:
      run.changes[1].q = 0;
      break;
  }
  CHECK_THROWS_AS(save_trace(path, run, false), Error);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("trace: runs prepared for their places ahead of their turn give the same file", "[core][trace]") {
  const ScratchFolder folder;
  const std::vector<RunRecord> runs = {random_run(1), random_run(2), random_run(3)};
  const TraceWriter::Options options{.max_runs = 3, .max_positions = 200};
  const auto one_by_one = folder / "a.h5", ahead = folder / "b.h5";
  {
    TraceWriter writer(one_by_one, runs[0].model, options);
    for (const RunRecord& run : runs) writer.add(run);
    writer.finish();
  }
  TraceWriter writer(ahead, runs[0].model, options);
  std::vector<PreparedRun> prepared;
  trace::RunPlace place = writer.place();
  for (const RunRecord& run : runs) {
    prepared.emplace_back(run, place);
    place.pass(run);
  }
  CHECK_THROWS_WITH(writer.append(prepared[1]), Contains("prepared as number 1") && Contains("number 0"));
  for (const PreparedRun& run : prepared) writer.append(run);
  CHECK(writer.place() == place);
  CHECK_THROWS_AS(writer.append(prepared[2]), Error);  // its turn is over
  writer.finish();
  CHECK(bytes_of(one_by_one) == bytes_of(ahead));
}
