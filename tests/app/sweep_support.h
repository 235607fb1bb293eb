#pragma once
// Sweeps with the fake engine, and what their studies have in common.

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/trace/study_file.h"
#include "tests/app/process.h"

namespace kvscope::test {

namespace fs = std::filesystem;
using nlohmann::json;

/// Two texts and a task under 14 policies, the dense one and one more with two gates.
inline constexpr std::size_t kPolicies = 14 + 1 + 2, kRows = kPolicies * (2 * 2 + 2),
                             kAnswers = kPolicies * (2 * 3 * 2 + 4 * 2);
inline json usual_recipe() {
  return {{"model", sample_model().string()},
          {"texts", {"a.txt", "b.txt"}},
          {"pieces", 3},
          {"chunk", {1, 16}},
          {"tasks", {"needle"}},
          {"questions", 4},
          {"seeds", {1, 2}},
          {"policies",
           {"random:keep=50%,window=4",
            {{"policy", "h2o"}, {"axes", {{"keep", {"75%", "50%", "25%"}}, {"window", {4, 8, 12}}}}},
            {{"policy", "streaming"}, {"axes", {{"window", {4, 16, 30, 50}}}}},
            {{"policy", "wg-kv:window=8"}, {"gates", {"x", "y"}}}}},
          {"matched", {0.3, 0.6}}};
}

inline fs::path write_recipe(const TemporaryFolder& folder, const json& recipe, const std::string& name = "r.json") {
  std::ofstream(folder / name) << recipe.dump();
  std::ofstream(folder / "a.txt") << "one text";
  std::ofstream(folder / "b.txt") << "another text";
  return folder / name;
}

struct Sweep {
  const TemporaryFolder& folder;
  std::string name = "s.h5";
  std::vector<std::string> options = {};
  std::string engine = fake_engine().string();  // empty: the real one
  std::string recipe = "r.json";

  std::vector<std::string> argv() const {
    std::vector<std::string> argv = {kvscope().string(), "sweep", (folder / recipe).string()};
    if (!name.empty()) argv.insert(argv.end(), {"-o", (folder / name).string()});
    if (!engine.empty()) argv.insert(argv.end(), {"--engine", engine});
    argv.insert(argv.end(), options.begin(), options.end());
    return argv;
  }
  Result run(double kill_after = 60 * kSlowdown) const { return test::run({.argv = argv(), .timeout = kill_after}); }
  /// It has an answer, and more are to come.
  bool has_an_answer() const {
    return read_text(folder / (name + ".answers")).find("\"answer\":") != std::string::npos;
  }
  /// Killed, or interrupted, as soon as that is so.
  Result run_until_an_answer() const {
    return test::run({.argv = argv(), .kill_when = [this] { return has_an_answer(); }});
  }
  Result run_interrupted_at_an_answer() const {
    return test::run({.argv = argv(), .interrupt_when = [this] { return has_an_answer(); }});
  }
  StudyTable study() const { return read_study(kvscope(), folder / name); }
};

/// All but the times, and the seconds that follow from them; numbers to within `margin`.
inline std::string study_difference(const StudyTable& a, const StudyTable& b, double margin = 0) {
  const auto differ = [margin](const std::vector<double>& x, const std::vector<double>& y) {
    if (x.size() != y.size()) return true;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i]) != std::isnan(y[i]) || std::abs(x[i] - y[i]) > margin) return true;
    }
    return false;
  };
  if (a.request != b.request || a.facts != b.facts) return "request or facts";
  if (a.columns.size() != b.columns.size() || a.arrays.size() != b.arrays.size()) return "other columns or arrays";
  for (std::size_t i = 0; i < a.columns.size(); ++i) {
    const StudyColumn &x = a.columns[i], &y = b.columns[i];
    if (x.name != y.name || x.texts != y.texts) return x.name;
    if (x.name != "ms_per_token" && differ(x.numbers, y.numbers)) return x.name;
  }
  for (std::size_t i = 0; i < a.arrays.size(); ++i) {
    if (a.arrays[i].shape != b.arrays[i].shape || differ(a.arrays[i].values, b.arrays[i].values))
      return a.arrays[i].name;
  }
  return "";
}

inline StudyTable undisturbed_sweep(const TemporaryFolder& folder) {
  const Sweep sweep{folder, "whole.h5"};
  const Result result = sweep.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return sweep.study();
}

/// How often each (group, item, policy, index) stands in a file of answers; lines that were cut are none.
inline std::map<std::string, int> answers_in(const fs::path& path) {
  std::map<std::string, int> counts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const json value = json::parse(line, nullptr, false);
    if (!value.is_object() || !value.contains("answer")) continue;
    const json& answer = value["answer"];
    ++counts[json{value["group"], answer["item"], answer["policy"], answer["index"]}.dump()];
  }
  return counts;
}

}  // namespace kvscope::test
