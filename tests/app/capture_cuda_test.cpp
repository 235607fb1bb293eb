// A capture on a GPU whose context is lost in the midst of it, and a capture on two GPUs.
#include <chrono>
#include <thread>

#include "engine/core/support/error.h"
#include "tests/app/capture_support.h"
#include "tests/app/processes.h"
#include "tests/support/cuda_fault.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using test::CudaFault;

TEST_CASE("a capture whose GPU is lost says so in a line, starts its engine again and writes the same trace",
          "[app][cuda][cuda_fault]") {
#ifndef KVSCOPE_HAS_CUDA
  return test::skip("built without CUDA");
#endif
  if (!test::fs::exists("/dev/nvidia0")) return test::skip("no CUDA device");
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  constexpr int kMany = 60;
  const test::TemporaryFolder folder;
  test::write_prompts(folder, kMany);
  const test::Capture whole{folder,
                            "whole.h5",
                            {"--device", "cuda", "--ignore-eos"},
                            "",
                            40,
                            "streaming:sinks=4,window=24",
                            test::real_engine().string()};
  REQUIRE(whole.run(-1, 300).exit_code == 0);

  test::Capture lost = whole;
  lost.name = "t.h5";
  CudaFault& fault = test::cuda_fault(folder / "fault");
  const auto n_runs = [&] {
    try {
      return inspect_trace(folder / "t.h5").n_runs;
    } catch (const Error&) {  // not there yet
      return 0;
    }
  };
  std::jthread trap([&](std::stop_token stop) {  // when a few prompts are done
    while (!stop.stop_requested() && n_runs() < 5) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fault.trap = CudaFault::wanted;
  });
  std::vector<std::string> argv = lost.words();
  argv.insert(argv.begin(), test::kvscope().string());
  const test::Result result = test::run({.argv = argv,
                                         .environment = {{"LD_PRELOAD", test::fault_library("cuda")},
                                                         {CudaFault::kVariable, (folder / "fault").string()}},
                                         .timeout = 300});
  trap.request_stop();
  trap.join();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.find("CUDA") != std::string::npos);
  CHECK(result.err.find("; starting it again; decoding again: prompt") != std::string::npos);
  test::check_same_trace(folder / "t.h5", folder / "whole.h5");
}

TEST_CASE("a capture on all GPUs, an engine of which is killed midway, is that of one GPU", "[app][cuda]") {
#ifndef KVSCOPE_HAS_CUDA
  return test::skip("built without CUDA");
#endif
  if (!test::fs::exists("/dev/nvidia1")) return test::skip("no second CUDA device");
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const test::TemporaryFolder folder;
  test::write_prompts(folder, 400);
  test::fs::create_symlink(test::real_engine(), folder / "engine");
  test::Capture capture{folder,
                        "one.h5",
                        {"--device", "cuda:0", "--ignore-eos"},
                        "",
                        40,
                        "streaming:sinks=4,window=24",
                        "exec " + (folder / "engine").string()};
  REQUIRE(capture.run(-1, 300).exit_code == 0);
  capture.name = "all.h5";
  capture.options[1] = "cuda:all";
  bool is_killed = false;
  const test::Result result = test::run({.argv = capture.argv(),
                                         .interrupt_when =
                                             [&] {
                                               if (!is_killed && capture.has_a_run())
                                                 is_killed =
                                                     ::kill(test::processes_of(folder / "engine").back(), SIGKILL) == 0;
                                               return false;
                                             },
                                         .timeout = 300});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(is_killed);
  CHECK(result.err.find("starting it again") != std::string::npos);
  test::check_same_trace(folder / "all.h5", folder / "one.h5");
}
