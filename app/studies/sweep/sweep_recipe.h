#pragma once
// A sweep's recipe: JSON, strict.

#include <filesystem>
#include <string>
#include <vector>

#include "app/studies/sweep/sweep_plan.h"

namespace kvscope::app {

struct SweepRecipe {
  std::string text;   // the JSON, in one line
  std::string model;  // as written
  EvalRequest request;
  std::vector<SweepPoint> points;  // no policy twice, none that is the dense one
  std::vector<std::string> axes;   // in the order of their first entry
  std::vector<int> chunks;
  std::vector<std::uint64_t> seeds;
  std::vector<double> matched;
  std::string cost;
};

/// Files that it names are beside it, unless their paths are absolute. Throws Error (bad input).
SweepRecipe read_sweep_recipe(const std::filesystem::path& path);

}  // namespace kvscope::app
