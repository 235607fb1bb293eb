// kvscope capture --batch: the trace is that of one prompt after the other, whatever happens on the way.

#include "engine/core/support/random.h"
#include "tests/app/capture_support.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

bool can_capture() { return !real_engine().empty() && fs::exists(sample_model() / "model.safetensors"); }

// With kvscope-engine, whose answers end at different lengths.
Capture real_capture(const TemporaryFolder& folder, const std::string& name, int batch) {
  return {folder,
          name,
          {"--resume", "--batch", std::to_string(batch), "--device", "cpu", "--temperature", "0.9", "--seed", "5"},
          "",
          20,
          "h2o:budget=16,window=8",
          real_engine()};
}

fs::path one_at_a_time(const TemporaryFolder& folder) {
  const auto result = real_capture(folder, "whole.h5", 1).run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return folder / "whole.h5";
}

}  // namespace

TEST_CASE("A capture of several prompts at once has the trace of one prompt after the other") {
  if (!can_capture()) return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  write_prompts(folder, 11);
  const fs::path whole = one_at_a_time(folder);
  const int batch = GENERATE(3, 8);
  const auto result = real_capture(folder, "t.h5", batch).run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(json::parse(result.out)["runs"] == 11);
  check_same_trace(folder / "t.h5", whole);
}

TEST_CASE("A capture of several prompts at once that is interrupted or killed continues to the same trace") {
  if (!can_capture()) return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  write_prompts(folder, 11);
  const fs::path whole = one_at_a_time(folder);
  const TraceInfo info = inspect_trace(whole);
  Random random(20261129);
  for (int stops = 0; stops < 6; ++stops) {
    const double seconds = 0.3 + 0.2 * static_cast<double>(random.below(10));
    const bool is_kill = stops % 2 == 0;
    const Capture capture = real_capture(folder, "t.h5", 4);
    const auto result = is_kill ? capture.run(-1, seconds) : capture.run(seconds);
    CAPTURE(stops, is_kill, seconds, result.err);
    REQUIRE((result.exit_code == 0 || result.exit_code == (is_kill ? -1 : 130)));
    if (!fs::exists(folder / "t.h5")) continue;
    const TraceInfo there = inspect_trace(folder / "t.h5");  // the first prompts, in their order
    REQUIRE(there.n_runs <= info.n_runs);
    CHECK(std::equal(there.prompt_index.begin(), there.prompt_index.end(), info.prompt_index.begin()));
  }
  const auto result = real_capture(folder, "t.h5", 4).run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  check_same_trace(folder / "t.h5", whole);
}

TEST_CASE("An engine that stops starts again, and takes its prompts again one by one, each twice at most") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder);
  Capture capture{folder, "t.h5", {"--resume", "--batch", "4"}, " --die-in-run 3"};
  capture.engine_options += " --offer '{\"runs_at_once\": 4}'";
  const auto stopped = capture.run();
  check_error_line(stopped, 3, "engine: without prompt 4: it stopped: ");
  CHECK(stopped.err.find("starting it again; decoding again: prompts 2, 3, 4, 5\n") != std::string::npos);
  CHECK(stopped.err.find("t.h5: stopped after 6 of 7 prompts; --resume continues") != std::string::npos);
  CHECK(inspect_trace(folder / "t.h5").prompt_index == std::vector<int>{0, 1, 2, 3, 5, 6});
  capture.engine_options = " --offer '{\"runs_at_once\": 4}'";
  const auto result = capture.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  check_same_runs(folder / "t.h5", whole);
}

TEST_CASE("A bad prompt among several at once is a failed run in its place, in the same trace") {
  if (!can_capture()) return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  write_prompts(folder, 9);
  {
    std::ofstream file(folder / "p.jsonl", std::ios::app);
    file << json{{"prompt", ""}}.dump() << "\n" << json{{"prompt", "the last one"}}.dump() << "\n";
  }
  for (const int batch : {1, 4}) {
    Capture capture = real_capture(folder, "t" + std::to_string(batch) + ".h5", batch);
    capture.options.insert(capture.options.end(), {"--skip-bad", "--raw"});
    const auto result = capture.run();
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(load_trace(folder / capture.name, 9).status == RunStatus::failed);
  }
  check_same_trace(folder / "t4.h5", folder / "t1.h5");
}

TEST_CASE("capture --batch of an engine that takes one run at a time goes one by one, and says so") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const auto result = Capture{folder, "t.h5", {"--batch", "4"}}.run();
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.find("warning: --batch 4: the engine decodes at most 1 at once") != std::string::npos);
  check_same_trace(folder / "t.h5", undisturbed(folder));
  check_error_line(Capture{folder, "u.h5", {"--batch", "0"}}.run(), 1, "--batch");
}
