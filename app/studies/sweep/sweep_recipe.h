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
  std::vector<int> lengths;        // several, each a group; of one, `request` has it
  std::vector<int> chunks;
  std::vector<std::uint64_t> seeds;
  std::vector<double> matched;
  std::string cost;
};

/// `file` of the folder that `recipe` is in; as it is if it is empty or absolute.
std::string beside(const std::filesystem::path& recipe, const std::string& file);

/// Files that it names are beside it, unless their paths are absolute. Throws Error (bad input).
SweepRecipe read_sweep_recipe(const std::filesystem::path& path);

}  // namespace kvscope::app
