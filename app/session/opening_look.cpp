#include "app/session/opening_look.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/core/study/measure/common_oracle.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/token_facts.h"

namespace kvscope::app {

// Two runs are compared by what a larger budget does not raise of itself.
static bool compares_by_oracle(const RunRecord& a, const RunRecord& b) {
  return views::same_shape(a, b) && !a.future_mass.empty() && !b.future_mass.empty();
}

// Under one budget for all heads the first one may keep everything: the head of the median density among those that evict.
std::optional<views::KvHead> evicting_head(const RunRecord& run) {
  const HeadMap density = head_metric(run, Metric::density, run.queries() - 1);
  if (density.values.empty() || !(density.values[0] == 1)) return {};
  const auto of = [&](int head) { return density.values[static_cast<std::size_t>(head)]; };
  std::vector<int> evicting;
  for (int head = 0; head < static_cast<int>(density.values.size()); ++head)
    if (of(head) < 1) evicting.push_back(head);
  if (evicting.empty()) return {};
  std::ranges::stable_sort(evicting, {}, of);
  const int head = evicting[evicting.size() / 2];
  return views::KvHead{head / density.n_kv_heads, head % density.n_kv_heads};
}

Metric opening_metric(const RunRecord& a, const RunRecord* b, Metric now) {
  if (b != nullptr && compares_by_oracle(a, *b)) {
    const std::int32_t q = std::min(a.queries(), b->queries()) - 1;
    const auto common = CommonOracle::of(a, *b);
    const auto has_value = [&](const RunRecord& run) {
      const HeadMap map =
          common ? common->metric(run, Metric::above_chance, q) : head_metric(run, Metric::above_chance, q);
      return std::ranges::any_of(map.values, [](float value) { return !std::isnan(value); });
    };
    if (has_value(a) || has_value(*b)) return Metric::above_chance;
  }
  return views::varying_metric(a, now == Metric::above_chance ? Metric::density : now);
}

}  // namespace kvscope::app
