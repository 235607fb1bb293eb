// kvscope capture on several devices: an engine for each, and the trace of one.

#include <signal.h>

#include <chrono>
#include <thread>

#include "app/studies/capture/prompt_queue.h"
#include "tests/app/capture_support.h"
#include "tests/app/processes.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

const std::string kTwoGpus = R"( --offer '{"runs_at_once": 3, "gpus": 2}')";
constexpr int kMany = 24;
constexpr const char* kFakePolicy = "kvpop:budget=12,sinks=2,window=4";

std::vector<pid_t> engines_of(const TemporaryFolder& folder) { return processes_of((folder / "engine").string()); }

void check_engines_end(const TemporaryFolder& folder) {
  for (int i = 0; i < 100 * kSlowdown && !engines_of(folder).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(engines_of(folder).empty());
}

/// Linked as "engine", so that its processes can be found.
Capture capture_with(const TemporaryFolder& folder, const fs::path& engine, const std::string& name,
                     std::vector<std::string> options, const std::string& engine_options) {
  if (!fs::exists(folder / "engine")) fs::create_symlink(engine, folder / "engine");
  options.insert(options.end(), {"--resume", "--temperature", "0.9", "--seed", "5"});
  const bool is_fake = engine == fake_engine();
  return {folder,
          name,
          std::move(options),
          engine_options,
          12,
          is_fake ? kFakePolicy : "h2o:budget=16,window=8",
          "exec " + (folder / "engine").string()};
}

Capture fake_capture(const TemporaryFolder& folder, const std::string& name, const std::string& device,
                     const std::string& engine_options = "") {
  return capture_with(folder, fake_engine(), name, {"--device", device}, kTwoGpus + engine_options);
}

fs::path on_one_gpu(const TemporaryFolder& folder) {
  write_prompts(folder, kMany);
  const auto result = fake_capture(folder, "one.h5", "cuda:0").run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return folder / "one.h5";
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("A capture on two GPUs, the engine of one killed midway, has every prompt once and is that of a single GPU") {
  const TemporaryFolder folder;
  const fs::path one = on_one_gpu(folder);
  const std::string device = GENERATE("cuda:all", "cuda:0,cuda:1");
  const Capture capture = fake_capture(folder, "two.h5", device, " --slow 20");
  std::size_t at_once = 0;
  bool is_killed = false;
  const auto result = test::run({.argv = capture.argv(), .interrupt_when = [&] {
                                   const auto engines = engines_of(folder);
                                   at_once = std::max(at_once, engines.size());
                                   if (!is_killed && engines.size() == 2 && capture.has_a_run())
                                     is_killed = ::kill(engines[1], SIGKILL) == 0;
                                   return false;
                                 }});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(at_once == 2);
  CHECK(count(result.err,
              "(fake): engine: it stopped: killed by signal 9 (Killed); starting it again; decoding again: prompts ") ==
        1);
  check_same_trace(folder / "two.h5", one);
}

TEST_CASE("Two engines on the CPU, one of them killed midway, write the trace of one") {
  if (real_engine().empty() || !fs::exists(sample_model() / "model.safetensors"))
    return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  write_prompts(folder, kMany);
  REQUIRE(capture_with(folder, real_engine(), "one.h5", {"--device", "cpu"}, "").run().exit_code == 0);
  const Capture capture = capture_with(folder, real_engine(), "two.h5", {"--device", "cpu,cpu", "--batch", "2"}, "");
  bool is_killed = false;
  const auto result = test::run({.argv = capture.argv(), .interrupt_when = [&] {
                                   if (!is_killed && capture.has_a_run())
                                     is_killed = ::kill(engines_of(folder).back(), SIGKILL) == 0;
                                   return false;
                                 }});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(is_killed);
  check_same_trace(folder / "two.h5", folder / "one.h5");
}

TEST_CASE("A capture on two GPUs that is killed or interrupted ends both engines, and continues to the same trace") {
  const TemporaryFolder folder;
  const fs::path one = on_one_gpu(folder);
  const Capture slow = fake_capture(folder, "two.h5", "cuda:all", " --slow 20");
  const bool is_kill = GENERATE(false, true);
  const auto stopped = is_kill ? slow.run_until_a_run() : slow.run_interrupted_at_a_run();
  INFO(stopped.err);
  CHECK(stopped.exit_code == (is_kill ? -1 : 130));
  check_engines_end(folder);
  const TraceInfo there = inspect_trace(folder / "two.h5");  // the first prompts, in their order
  CHECK(there.n_runs < kMany);
  for (int i = 0; i < there.n_runs; ++i) CHECK(there.prompt_index[i] == i);
  const auto result = fake_capture(folder, "two.h5", "cuda:all").run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(json::parse(result.out)["resumed"] == there.n_runs);
  check_same_trace(folder / "two.h5", one);
}

TEST_CASE("A prompt that stops its engine twice is left out, named at the end, and done by --resume") {
  const TemporaryFolder folder;
  const fs::path one = on_one_gpu(folder);
  const std::string device = GENERATE("cuda:0", "cuda:all");
  CAPTURE(device);
  const auto stopped = fake_capture(folder, "two.h5", device, " --slow 3 --die-at-prompt 'number 5 '").run();
  check_error_line(stopped, 3, "engine: without prompt 5: it stopped: killed by signal 9");
  CHECK(count(stopped.err, "engine: it stopped") == 2);
  CHECK(count(stopped.err, "; left out: prompt 5;") == 1);
  CHECK(inspect_trace(folder / "two.h5").n_runs == kMany - 1);
  const auto result = fake_capture(folder, "two.h5", device).run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(json::parse(result.out)["resumed"] == kMany - 1);
  check_same_runs(folder / "two.h5", one);
}

TEST_CASE("An engine that does not start again leaves its prompts to the other, or ends the capture") {
  const TemporaryFolder folder;
  const fs::path one = on_one_gpu(folder);
  const std::string died = (folder / "died").string();
  const auto capture = [&](const std::string& device) {
    Capture capture = fake_capture(folder, "two.h5", device, " --slow 3 --die-in-run 2 --once " + died);
    capture.engine.insert(0, "[ -e " + died + " ] && exit 7; ");
    return capture.run();
  };
  const auto two = capture("cuda:all");
  INFO(two.err);
  REQUIRE(two.exit_code == 0);
  CHECK(two.err.find(": not started again: engine: it stopped: exit code 7") != std::string::npos);
  check_same_trace(folder / "two.h5", one);
  fs::remove(folder / "two.h5");
  fs::remove(died);
  check_error_line(capture("cuda:0"), 3, "engine: without prompts 1, 2, 3, 4, 5, 6, 7, 8 and 15 more: it stopped: ");
  CHECK(inspect_trace(folder / "two.h5").n_runs == 1);
}

TEST_CASE("An engine that stops at every prompt is started twice again and no more") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const auto result = Capture{folder, "t.h5", {}, " --die-at-token 1"}.run();
  check_error_line(result, 3, "engine: without prompts 0, 1, 2, 3, 4, 5, 6: it stopped: ");
  CHECK(count(result.err, "starting it again") == 2);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("capture --device cuda:all needs an engine that counts its GPUs, and one at least") {
  const TemporaryFolder folder;
  write_prompts(folder);
  Capture capture{folder, "t.h5", {"--device", "cuda:all"}};
  check_error_line(capture.run(), 1,
                   "this engine does not report how many GPUs it has; hint: name them: --device cuda:0,cuda:1");
  capture.engine_options = R"( --offer '{"gpus": 0}')";
  check_error_line(capture.run(), 3, "cuda:all: the engine finds no GPU; hint: kvscope doctor");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("Prompts of an engine that stopped come again alone, once") {
  using app::PromptQueue;
  PromptQueue queue(4, 2);
  const std::size_t all = 4;
  CHECK((queue.next(0, all) == 0u && queue.next(0, all) == 1u && queue.next(1, all) == 2u));
  CHECK(queue.stopped(0) == std::set<PromptQueue::Place>{0, 1});
  CHECK_FALSE(queue.next(1, all));  // it has another
  CHECK(queue.next(0, all) == 0u);
  CHECK_FALSE(queue.next(0, all));
  queue.done(0, 0);
  queue.done(1, 2);
  CHECK(queue.next(1, all) == 1u);
  CHECK(queue.next(0, all) == 3u);
  CHECK(queue.stopped(1).empty());
  CHECK_FALSE(queue.is_over());
  queue.done(0, 3);
  CHECK(queue.is_over());
}
