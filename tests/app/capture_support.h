#pragma once
// Captures with the fake engine, and what their traces have in common. For the tests of kvscope capture.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>

#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/random_run.h"
#include "tests/support/slowdown.h"

namespace kvscope::test {

namespace fs = std::filesystem;
using nlohmann::json;

inline constexpr int kPrompts = 7;

inline std::string prompt_of(int i) {
  return "prompt number " + std::to_string(i) + " of the list: 12 34 " + std::string(i, 'x');
}

inline fs::path write_prompts(const TemporaryFolder& folder, int n = kPrompts, int changed = -1) {
  std::ofstream file(folder / "p.jsonl");
  for (int i = 0; i < n; ++i) file << json{{"prompt", (i == changed ? "other " : "") + prompt_of(i)}}.dump() << "\n";
  return folder / "p.jsonl";
}

struct Capture {
  const TemporaryFolder& folder;
  std::string name = "t.h5";
  std::vector<std::string> options = {};
  std::string engine_options = "";
  int max_tokens = 4;
  std::string policy = "kvpop:budget=12,sinks=2,window=4";
  std::string engine = fake_engine().string();

  std::vector<std::string> words() const {
    std::vector<std::string> words = {"capture",
                                      sample_model().string(),
                                      (folder / "p.jsonl").string(),
                                      "-o",
                                      (folder / name).string(),
                                      "--engine",
                                      engine + engine_options,
                                      "--max-tokens",
                                      std::to_string(max_tokens),
                                      "--policy",
                                      policy,
                                      "--json"};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
  std::vector<std::string> argv() const {
    std::vector<std::string> argv = {kvscope().string()};
    for (const std::string& word : words()) argv.push_back(word);
    return argv;
  }
  Result run(double interrupt_after = -1, double kill_after = 60) const {
    return test::run({.argv = argv(), .interrupt_after = interrupt_after, .timeout = kill_after});
  }
  /// The trace that it writes has a run.
  bool has_a_run() const {
    if (!fs::exists(folder / name)) return false;
    const TraceInfo info = inspect_trace(folder / name);
    return info.status == "partial" && info.n_runs > 0;
  }
  /// Killed, or interrupted, as soon as that is so.
  Result run_until_a_run() const {
    return test::run({.argv = argv(), .kill_when = [this] { return has_a_run(); }});
  }
  Result run_interrupted_at_a_run() const {
    return test::run({.argv = argv(), .interrupt_when = [this] { return has_a_run(); }});
  }
};

// Times aside, which no two captures share.
inline RunRecord timeless(RunRecord run) {
  run.timings.load_s = run.timings.prefill_s = run.timings.decode_s = 0;
  run.started_utc.clear();
  Asked asked = *run.asked;
  asked.key.clear();  // which the moment is part of
  run.asked = std::make_shared<const Asked>(std::move(asked));
  return run;
}

inline void check_same_trace(const fs::path& a, const fs::path& b) {
  const TraceInfo info_a = inspect_trace(a), info_b = inspect_trace(b);
  REQUIRE(info_a.prompt_index == info_b.prompt_index);
  for (int i = 0; i < info_a.n_runs; ++i) {
    CAPTURE(a.string(), i);
    CHECK(run_difference(timeless(load_trace(a, i)), timeless(load_trace(b, i))) == "");
  }
}

/// The same runs, in whatever order.
inline void check_same_runs(const fs::path& a, const fs::path& b) {
  const auto runs_of = [](const fs::path& path) {
    std::map<int, RunRecord> runs;
    const TraceInfo info = inspect_trace(path);
    for (int i = 0; i < info.n_runs; ++i) CHECK(runs.emplace(info.prompt_index[i], load_trace(path, i)).second);
    return runs;
  };
  const auto runs_a = runs_of(a), runs_b = runs_of(b);
  REQUIRE(std::ranges::equal(std::views::keys(runs_a), std::views::keys(runs_b)));
  for (const auto& [prompt, run] : runs_a) {
    CAPTURE(a.string(), prompt);
    CHECK(run_difference(timeless(run), timeless(runs_b.at(prompt))) == "");
  }
}

inline fs::path undisturbed(const TemporaryFolder& folder) {
  const auto result = Capture{folder, "whole.h5"}.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return folder / "whole.h5";
}

inline void check_error_line(const Result& result, int exit_code, const std::string& contains) {
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  const auto begin = result.err.rfind("error: ");
  REQUIRE(begin != std::string::npos);
  CHECK(count_lines(result.err.substr(begin)) == 1);
  CHECK(result.err.find(contains, begin) != std::string::npos);
}

inline int files_in(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace kvscope::test
