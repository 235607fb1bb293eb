#include "views/figure/run_grid.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "views/figure/token_facts.h"

namespace kvscope::views {
namespace {

constexpr double kAlike = 0.87;  // of two sizes: a budget that a run ended short of still meets its neighbours

std::span<const std::int32_t> prompt_of(const RunRecord& run) {
  return std::span(run.ids).first(std::min(run.ids.size(), static_cast<std::size_t>(std::max(0, run.prompt_len))));
}

}  // namespace

RunGrid::Place RunGrid::place_of(std::size_t run) const {
  const auto cell = static_cast<std::size_t>(std::ranges::find(runs, static_cast<int>(run)) - runs.begin());
  return {cell / columns.size(), cell % columns.size()};
}

RunGrid run_grid(std::span<const GridRun> runs) {
  RunGrid grid;
  for (const GridRun& run : runs)
    if (std::ranges::find(grid.methods, run.method) == grid.methods.end()) grid.methods.push_back(run.method);
  std::vector<int> order(runs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto size_of_run = [&](int i) { return runs[static_cast<std::size_t>(i)].cache_size; };
  std::ranges::stable_sort(order, [&](int a, int b) {
    const bool has_a = !std::isnan(size_of_run(a)), has_b = !std::isnan(size_of_run(b));
    return has_a != has_b ? has_a : has_a && size_of_run(a) < size_of_run(b);
  });
  std::vector<std::map<std::string, int>> columns;
  for (const int i : order) {
    const GridRun& run = runs[static_cast<std::size_t>(i)];
    // Of two that have no size the comparison is false: they may stand in one column.
    const bool fits = !columns.empty() && !columns.back().contains(run.method) &&
                      std::isnan(run.cache_size) == std::isnan(grid.columns.back().lo) &&
                      !(grid.columns.back().lo < kAlike * run.cache_size);
    if (!fits) columns.emplace_back(), grid.columns.push_back({run.cache_size, run.cache_size});
    columns.back().emplace(run.method, i);
    grid.columns.back().hi = run.cache_size;
  }
  for (const std::string& method : grid.methods) {
    for (const auto& column : columns) {
      const auto found = column.find(method);
      grid.runs.push_back(found == column.end() ? -1 : found->second);
    }
  }
  return grid;
}

std::string_view why_not_in_grid(const RunRecord& run, const RunRecord& first) {
  if (run.n_tokens() == 0 || run.evict_at.empty()) return "no tokens yet";
  if (!same_shape(run, first)) return "another model";
  if (!std::ranges::equal(prompt_of(run), prompt_of(first))) return "another prompt";
  return "";
}

}  // namespace kvscope::views
