// A capture on a GPU whose context is lost in the midst of it.
#include <chrono>
#include <thread>

#include "engine/core/support/error.h"
#include "tests/app/capture_support.h"
#include "tests/support/cuda_fault.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using test::CudaFault;

TEST_CASE("a capture whose GPU is lost keeps what it had, says so in a line, and --resume goes on to the same trace",
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
  test::check_error_line(result, 3, "CUDA");
  const int kept = n_runs();
  CHECK(kept >= 5);
  CHECK(kept < kMany);

  lost.options.push_back("--resume");
  REQUIRE(lost.run(-1, 300).exit_code == 0);
  test::check_same_trace(folder / "t.h5", folder / "whole.h5");
}
