#include "engine/core/study/heads/head_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/study/heads/head_question.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

HeadSelection choose_by_values(const HeadsOfModel& heads, const HeadQuestion& question) {
  const HeadStrategy strategy = question.strategy.value_or(HeadStrategy::d);
  HeadSelection selection{.n_layers = heads.n_layers,
                          .n_kv_heads = heads.n_kv_heads,
                          .coverage = kNaN,
                          .rule = std::string(kHeadStrategies[static_cast<std::size_t>(strategy)])};
  const int n_global = n_global_heads(strategy, heads, question);
  const auto [least, most] = std::minmax_element(heads.alpha.begin(), heads.alpha.end());
  if (strategy == HeadStrategy::d && n_global > 0 && n_global < heads.n_heads() && *least == *most)
    refuse_question("strategy", "d of values that are all " + number_text(*least, 6),
                    "values that differ, or strategy a, b or c, which do not need values");
  for (const std::uint8_t local : local_heads_by(strategy, heads, n_global, question.seed.value_or(0)))
    selection.full.push_back(local != 0 ? 0.0f : 1.0f);
  if (strategy == HeadStrategy::d) note_ties(selection, heads.alpha);
  return selection;
}

HeadDensities head_densities(const std::vector<const RunRecord*>& runs) {
  if (runs.empty()) return {};
  const auto n_heads = static_cast<std::size_t>(runs[0]->model.n_layers) * runs[0]->model.n_kv_heads;
  std::vector<std::vector<double>> found(n_heads);
  for (const RunRecord* run : runs) {
    const HeadMap map = head_metric(*run, Metric::density, run->queries() - 1);
    for (std::size_t i = 0; i < n_heads; ++i)
      if (!std::isnan(map.values[i])) found[i].push_back(map.values[i]);
  }
  HeadDensities densities;
  for (const std::vector<double>& values : found) {
    const auto n = static_cast<double>(values.size());
    double sum = 0, squares = 0;
    for (const double value : values) sum += value;
    for (const double value : values) squares += (value - sum / n) * (value - sum / n);
    densities.mean.push_back(values.empty() ? kNaN : sum / n);
    densities.deviation.push_back(values.size() < 2 ? kNaN : std::sqrt(squares / (n - 1)));
  }
  return densities;
}

}  // namespace kvscope
