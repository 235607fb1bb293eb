// The memory of a capture of many prompts, and of its engine. Takes half an hour: app_tests "[capture_memory]".
//
//   KVSCOPE_PROMPTS=10000     how many; 10,000 is the default

#include <chrono>
#include <thread>

#include "tests/app/capture_support.h"
#include "tests/app/processes.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

TEST_CASE("A capture of 10,000 prompts and its engine need no more memory than for the first 1,000",
          "[.slow][capture_memory]") {
  if (real_engine().empty() || !fs::exists(sample_model() / "model.safetensors"))
    return skip("kvscope-engine or the sample model is not built");
  const char* asked = std::getenv("KVSCOPE_PROMPTS");
  const int n = asked ? std::atoi(asked) : 10'000;
  const TemporaryFolder folder;
  std::ofstream prompts(folder / "p.jsonl");
  for (int i = 0; i < n; ++i) prompts << json{{"prompt", "prompt number " + std::to_string(i)}}.dump() << "\n";
  prompts.close();
  fs::create_symlink(real_engine(), folder / "engine");
  fs::create_symlink(kvscope::test::kvscope(), folder / "kvscope");
  Capture capture{folder, "t.h5", {"--no-oracle", "--batch", "8", "--device", "cpu"}, "", 2, "full"};
  capture.engine = "exec " + (folder / "engine").string();
  std::vector<std::string> argv = capture.argv();
  argv[0] = folder / "kvscope";

  struct Most {
    std::int64_t first = 0, later = 0;
  };
  std::map<std::string, Most> most;  // by program
  auto next_look = std::chrono::steady_clock::now();
  int runs = 0;
  const auto look = [&] {
    if (std::chrono::steady_clock::now() < next_look) return false;
    next_look = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    if (fs::exists(folder / "t.h5")) runs = inspect_trace(folder / "t.h5").n_runs;
    if (runs == n) return false;  // the file is being finished, which needs memory once
    for (const char* program : {"engine", "kvscope"}) {
      for (const pid_t pid : processes_of((folder / program).string())) {
        Most& of_program = most[program];
        std::int64_t& bytes = runs <= n / 10 ? of_program.first : of_program.later;
        bytes = std::max(bytes, resident_bytes(pid));
      }
    }
    return false;
  };
  const auto result = test::run({.argv = argv, .interrupt_when = look, .timeout = 7200});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(inspect_trace(folder / "t.h5").n_runs == n);
  for (const auto& [program, bytes] : most) {
    WARN(program << ": " << bytes.first / 1024 << " KiB at most in the first tenth, " << bytes.later / 1024
                 << " KiB later");
    CHECK(bytes.later < bytes.first + (8 << 20));  // what an allocator holds on to varies
  }
  CHECK(most.size() == 2);
}
