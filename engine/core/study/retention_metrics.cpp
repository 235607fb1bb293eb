#include "engine/core/study/retention_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/study/output_error.h"

namespace kvscope {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr MetricInfo kMetrics[] = {
    {Metric::density, "density", "Density",
     "kept tokens outside the window / all tokens outside the window (t <= q - window); "
     "sinks count, the window does not",
     false},
    {Metric::evict_ratio, "evict_ratio", "Evict ratio",
     "1 - kept / all tokens between sinks and window (n_sink <= t <= q - window): 0 is dense, 1 is window only", false},
    {Metric::cache_share, "cache_share", "Cache share", "kept tokens / (q + 1); window and sinks count", false},
    {Metric::recall, "recall", "Oracle recall",
     "tokens kept by policy and oracle / tokens kept by the oracle, over eligible tokens (n_sink <= t <= q - window); "
     "oracle: running top-k of the dense teacher's future attention with the same sinks, window, top_k and decay",
     true},
    {Metric::mass_recall, "mass_recall", "Mass recall",
     "future attention mass of the kept tokens / that of the oracle's tokens, over eligible tokens; "
     "not bounded by 1, as the oracle may rank by decayed mass",
     true},
    {Metric::regret, "regret", "Regret",
     "1 - mass recall: the share of the oracle's future attention mass that the kept tokens miss", true},
    {Metric::chance, "chance", "Chance", "kept / eligible tokens: the recall of random retention of the same size",
     false},
    {Metric::output_error, "output_error", "Output error",
     "norm of what eviction changes in the head group's part of the attention output, |sum over its query heads of "
     "(o over all tokens - o over kept and read ones) W_o| / |o W_o| of the layer's whole output over all tokens, both "
     "in one pass over the run's own tokens under its lifetimes; sqrt(sum of squares / sum of squares) over the queries "
     "up to q for which something is evicted or unread",
     false},
};

/// One head's lifetimes as the metrics see them.
struct HeadRows {
  std::span<const std::int32_t> evict_at;
  std::span<const std::int32_t> oracle;  // empty if not known
  std::span<const float> mass;           // empty if not known
  bool running;

  /// Whether the policy has a decision on t. While a run is in progress "open" means alive so far; after it, in the
  /// window.
  bool decided(std::int32_t t) const { return running || evict_at[t] != kUndecided; }
  bool oracle_decided(std::int32_t t) const {
    return t < static_cast<std::int32_t>(oracle.size()) && oracle[t] != kUndecided;
  }
};

HeadRows head_rows(const RunRecord& run, int layer, int kv_head) {
  HeadRows rows{.evict_at = run.evict_at.row(layer, kv_head), .running = run.status == RunStatus::running};
  if (!run.oracle_evict_at.empty()) rows.oracle = run.oracle_evict_at.row(layer, kv_head);
  if (!run.future_mass.empty()) rows.mass = run.future_mass.row(layer, kv_head);
  return rows;
}

float ratio(double part, double whole) { return whole > 0 ? static_cast<float>(part / whole) : kNaN; }

/// |kept| / |decided| over from <= t <= to.
float kept_share(const HeadRows& rows, std::int32_t q, std::int32_t from, std::int32_t to) {
  int kept = 0, total = 0;
  for (std::int32_t t = from; t <= to; ++t) {
    if (!rows.decided(t)) continue;
    ++total;
    kept += visible(q, t, rows.evict_at[t]);
  }
  return ratio(kept, total);
}

float cache_share(const HeadRows& rows, std::int32_t q) {
  int kept = 0;
  for (std::int32_t t = 0; t <= q; ++t) kept += visible(q, t, rows.evict_at[t]);
  return ratio(kept, q + 1);
}

/// Recall, each token weighing `weight(t)`; tokens whose weight is NaN are left out.
template <typename Weight>
float weighted_recall(const HeadRows& rows, std::int32_t q, std::int32_t from, std::int32_t to, bool intersect,
                      Weight weight) {
  double policy = 0, oracle = 0;
  for (std::int32_t t = from; t <= to; ++t) {
    const double w = weight(t);
    if (!rows.decided(t) || !rows.oracle_decided(t) || std::isnan(w)) continue;
    const bool oracle_keeps = visible(q, t, rows.oracle[t]);
    if (oracle_keeps) oracle += w;
    if (visible(q, t, rows.evict_at[t]) && (oracle_keeps || !intersect)) policy += w;
  }
  return ratio(policy, oracle);
}

float value_of(const HeadRows& rows, Metric metric, std::int32_t q, const RetentionGeometry& geometry) {
  const std::int32_t from = geometry.n_sink, to = q - geometry.window;
  switch (metric) {
    case Metric::density:
      return kept_share(rows, q, 0, to);
    case Metric::evict_ratio:
      return 1 - kept_share(rows, q, from, to);
    case Metric::chance:
      return kept_share(rows, q, from, to);
    case Metric::cache_share:
      return cache_share(rows, q);
    case Metric::output_error:  // head_metric() asks output_error_map()
      return kNaN;
    case Metric::recall:
      return weighted_recall(rows, q, from, to, true, [](std::int32_t) { return 1.0; });
    case Metric::regret:
      return 1 - value_of(rows, Metric::mass_recall, q, geometry);
    case Metric::mass_recall:
      return weighted_recall(rows, q, from, to, false, [&](std::int32_t t) {
        return t < static_cast<std::int32_t>(rows.mass.size()) ? static_cast<double>(rows.mass[t]) : NAN;
      });
  }
  return kNaN;
}

HeadMap empty_map(const RunRecord& run) {
  const int n_layers = run.model.n_layers, n_kv_heads = run.model.n_kv_heads;
  return {n_layers, n_kv_heads, std::vector<float>(static_cast<std::size_t>(n_layers) * n_kv_heads, kNaN)};
}

/// The last query that the metric can speak of, at most q; -1 if there is none.
std::int32_t last_query(const RunRecord& run, std::int32_t q, bool needs_oracle) {
  const std::int32_t last = run.ids.empty() || run.evict_at.empty() ? -1 : std::min(q, run.queries() - 1);
  if (!needs_oracle) return last;
  if (run.oracle_evict_at.empty()) return -1;
  return run.oracle_horizon > 0 ? std::min(last, run.oracle_horizon - 1) : last;
}

/// Adds one to every element of [from, to) of a series of which `steps` is the difference; steps.size() = length + 1.
void add_interval(std::vector<std::int32_t>& steps, std::int64_t from, std::int64_t to) {
  const std::int64_t end = static_cast<std::int64_t>(steps.size()) - 1;
  from = std::min(from, end);
  to = std::min(to, end);
  if (from >= to) return;
  ++steps[from];
  --steps[to];
}

/// Differences to values, in place, one shorter.
void accumulate(std::vector<std::int32_t>& steps) {
  for (std::size_t i = 1; i < steps.size(); ++i) steps[i] += steps[i - 1];
  steps.pop_back();
}

/// Mean of recall(q) over q = first ... last, O(last): a token counts from t + window until it is evicted.
float mean_recall_of(const HeadRows& rows, const RetentionGeometry& geometry, std::int32_t first, std::int32_t last) {
  std::vector<std::int32_t> oracle(last + 2, 0), both(last + 2, 0);
  for (std::int32_t t = geometry.n_sink; t <= last - geometry.window; ++t) {
    if (!rows.decided(t) || !rows.oracle_decided(t)) continue;
    add_interval(oracle, t + geometry.window, rows.oracle[t]);
    add_interval(both, t + geometry.window, std::min(rows.oracle[t], rows.evict_at[t]));
  }
  accumulate(oracle);
  accumulate(both);
  double sum = 0;
  int n = 0;
  for (std::int32_t q = first; q <= last; ++q) {
    if (oracle[q] == 0) continue;
    sum += static_cast<double>(both[q]) / oracle[q];
    ++n;
  }
  return ratio(sum, n);
}

}  // namespace

std::span<const MetricInfo> metric_list() { return kMetrics; }

const MetricInfo* find_metric(std::string_view name) {
  for (const MetricInfo& info : kMetrics) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

HeadMap head_metric(const RunRecord& run, Metric metric, std::int32_t q) {
  if (metric == Metric::output_error) return output_error_map(run, q).map;
  HeadMap map = empty_map(run);
  q = last_query(run, q, std::ranges::find(kMetrics, metric, &MetricInfo::metric)->needs_oracle);
  if (q < 0) return map;
  const RetentionGeometry geometry = run.geometry();
  auto value = map.values.begin();
  for (int layer = 0; layer < map.n_layers; ++layer) {
    for (int head = 0; head < map.n_kv_heads; ++head) {
      *value++ = value_of(head_rows(run, layer, head), metric, q, geometry);
    }
  }
  return map;
}

HeadMap mean_recall(const RunRecord& run) {
  HeadMap map = empty_map(run);
  const std::int32_t last = last_query(run, run.n_tokens() - 1, true);
  if (last < 0) return map;
  const RetentionGeometry geometry = run.geometry();
  const std::int32_t first = geometry.budget();
  if (first > last) return map;
  auto value = map.values.begin();
  for (int layer = 0; layer < map.n_layers; ++layer) {
    for (int head = 0; head < map.n_kv_heads; ++head) {
      *value++ = mean_recall_of(head_rows(run, layer, head), geometry, first, last);
    }
  }
  return map;
}

double mean(const HeadMap& map) {
  double sum = 0;
  int n = 0;
  for (const float value : map.values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++n;
  }
  return n > 0 ? sum / n : std::numeric_limits<double>::quiet_NaN();
}

Occupancy occupancy(const RunRecord& run, int layer, int kv_head) {
  const RetentionGeometry geometry = run.geometry();
  const std::vector<std::int32_t>& evict_at = run.evict_at.row(layer, kv_head);
  const std::size_t n = run.ids.size();
  std::vector<std::int32_t> sinks(n + 1, 0), window(n + 1, 0), long_range(n + 1, 0);
  for (std::int32_t t = 0; t < static_cast<std::int32_t>(std::min(n, evict_at.size())); ++t) {
    if (t < geometry.n_sink) {
      add_interval(sinks, t, evict_at[t]);
      continue;
    }
    const std::int32_t out = t + geometry.window;
    add_interval(window, t, std::min(out, evict_at[t]));
    add_interval(long_range, out, evict_at[t]);
  }
  accumulate(sinks);
  accumulate(window);
  accumulate(long_range);
  return {std::move(sinks), std::move(window), std::move(long_range)};
}

}  // namespace kvscope
