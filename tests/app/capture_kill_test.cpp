// A real capture with the sample model, 8 prompts at once in one or two engines, killed 200 times. Takes minutes.
//
//   KVSCOPE_KILLS=200 app_tests "[capture_kill]"     200 is the default; KVSCOPE_SEED another series

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/support/random.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/skip.h"

using namespace kvscope;

namespace {

namespace fs = std::filesystem;

std::uint64_t number_of(const char* variable, std::uint64_t fallback) {
  const char* value = std::getenv(variable);
  return value ? std::strtoull(value, nullptr, 10) : fallback;
}

test::Result capture(const test::TemporaryFolder& folder, const std::string& name, double kill_after,
                     const std::string& device = "cpu") {
  return test::run({.argv = {test::kvscope().string(),
                             "capture",
                             test::sample_model().string(),
                             (folder / "p.jsonl").string(),
                             "-o",
                             (folder / name).string(),
                             "--resume",
                             "--policy",
                             "kvpop:keep=40%",
                             "--max-tokens",
                             "24",
                             "--device",
                             device,
                             "--batch",
                             "8",
                             "--temperature",
                             "0.8",
                             "--seed",
                             "5",
                             "--ignore-eos",
                             "--json"},
                    .timeout = kill_after});
}

std::string python_with_h5py() {
  const char* named = std::getenv("KVSCOPE_PYTHON");
  const std::string python = named && *named ? named : "/usr/bin/python3";
  return test::run({.argv = {python, "-c", "import h5py, numpy"}}).exit_code == 0 ? python : "";
}

}  // namespace

TEST_CASE("Random kills of kvscope capture lose and double nothing that it committed", "[.slow][capture_kill]") {
  if (test::real_engine().empty() || !fs::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const std::string python = python_with_h5py();
  if (python.empty()) return test::skip("no Python with h5py (set KVSCOPE_PYTHON)");
  const std::string check = (test::source_folder() / "tests/core/check_trace.py").string();
  const test::TemporaryFolder folder;
  {
    std::ofstream prompts(folder / "p.jsonl");
    for (int i = 0; i < 24; ++i) {
      std::string text = "\nNumbers:";
      for (int n = 0; n < 60; ++n) text += " " + std::to_string((17 * i + 29 * n) % 90 + 10);
      prompts << nlohmann::json{{"prompt", text + ".\n\nReversed:"}}.dump() << "\n";
    }
  }
  const auto whole = capture(folder, "whole.h5", 600);
  INFO(whole.err);
  REQUIRE(whole.exit_code == 0);

  Random random(number_of("KVSCOPE_SEED", 20261121));
  const int wanted = static_cast<int>(number_of("KVSCOPE_KILLS", 200));
  int kills = 0, in_the_middle = 0, files = 0;
  for (int committed = 0; kills < wanted;) {
    // From before the engine is there to well after some prompts; a capture ends after several kills.
    const double kill_after = 0.02 + whole.seconds * 0.5 * static_cast<double>(random.below(1000)) / 1000;
    const auto result = capture(folder, "t.h5", kill_after, random.below(2) == 0 ? "cpu" : "cpu,cpu");
    CAPTURE(kills, kill_after, committed, result.err);
    REQUIRE((result.exit_code == 0 || result.exit_code == -1));
    if (fs::exists(folder / "t.h5")) {
      const auto read = test::run({.argv = {python, check, "--beginning", (folder / "t.h5").string(),
                                            (folder / "whole.h5").string(), std::to_string(committed)}});
      INFO(read.err);
      REQUIRE(read.exit_code == 0);
      committed = inspect_trace(folder / "t.h5").n_runs;
    }
    if (result.exit_code == -1) {
      ++kills;
      in_the_middle += committed > 0 && committed < 24;
      continue;
    }
    CHECK(committed == 24);
    CHECK(inspect_trace(folder / "t.h5").status == "complete");
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 3);  // no leftovers
    fs::remove(folder / "t.h5");
    committed = 0;
    ++files;
  }
  WARN(kills << " kills, " << in_the_middle << " of them between the first and the last run, " << files
             << " captures whole");
  CHECK(in_the_middle >= wanted / 4);
}
