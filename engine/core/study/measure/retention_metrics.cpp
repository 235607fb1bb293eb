#include "engine/core/study/measure/retention_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/read_metrics.h"

namespace kvscope {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr MetricInfo kMetrics[] = {
    {Metric::density, "density", "Density",
     "kept tokens outside the window / all tokens outside the window (t <= q - window); "
     "sinks count, the window does not",
     false, "incl. sinks"},
    {Metric::evict_ratio, "evict_ratio", "Evict ratio",
     "1 - kept / all tokens between sinks and window (n_sink <= t <= q - window): 0 is dense, 1 is window only", false,
     "without sinks"},
    {Metric::cache_share, "cache_share", "Cache share", "kept tokens / (q + 1); window and sinks count", false,
     "incl. sinks and window"},
    {Metric::recall, "recall", "Oracle recall",
     "share of the oracle's tokens that the policy keeps too, over eligible tokens (n_sink <= t <= q - window); the "
     "oracle holds as many tokens as the policy keeps at q, those with the most future attention; no value if there "
     "was no choice",
     true},
    {Metric::mean_recall, "mean_recall", "Mean recall",
     "mean of the oracle recall over the queries up to q with a choice", true},
    {Metric::chance, "chance", "Chance",
     "kept / eligible tokens: the recall of the same number of random tokens; no value if there was no choice", true},
    {Metric::above_chance, "above_chance", "Recall above chance",
     "(mean recall - mean chance) / (1 - mean chance), means over the queries up to q with a choice: 0 for a random "
     "choice, 1 for the oracle",
     true, "", false},
    {Metric::mass_kept, "mass_kept", "Mass kept",
     "future attention mass of the kept tokens / that of all eligible tokens (n_sink <= t <= q - window)", true},
    {Metric::mass_kept_but_first, "mass_kept_but_first", "Mass kept but first",
     "mass kept, not counting token 0, which may receive most of a model's attention", true},
    {Metric::mass_recall, "mass_recall", "Mass recall",
     "future attention mass of the kept tokens / that of the oracle's tokens, over eligible tokens; may exceed 1, "
     "because the oracle may rank by decayed mass; no value if there was no choice",
     true},
    {Metric::regret, "regret", "Regret",
     "1 - mass recall: the share of the oracle's future attention mass that the kept tokens miss", true, "", false},
    {Metric::output_error, "output_error", "Output error",
     "norm of the change that eviction makes to the head group's part of the attention output, |sum over its query "
     "heads of (o over all tokens - o over kept and read ones) W_o| / |o W_o| of the layer's whole output over all "
     "tokens, both in one pass over the run's own tokens under its lifetimes; sqrt(sum of squares / sum of squares) "
     "over the queries up to q for which something is evicted or unread",
     false, "", false},
    {Metric::read_mass, "read_mass", "Read mass",
     "share of a query's dense attention, on the tokens before its own page of 16, that is on the pages it read; "
     "mean over the group and over the queries up to q; only for heads that read pages; measured with the output "
     "error",
     false},
    {Metric::best_read_mass, "best_read_mass", "Best read mass",
     "read mass of the same number of pages, chosen by the dense attention itself", false},
    {Metric::read_share, "read_share", "Read share",
     "tokens that the query reads / kept tokens; window and sinks count; 1 where a layer or the prompt reads "
     "everything; no value if the run recorded no reads",
     false},
};

/// One head's lifetimes as the metrics see them.
struct HeadRows {
  std::span<const std::int32_t> evict_at;
  bool open;  // the run has not ended, or ended in failure: what has no lifetime is alive

  /// Whether the policy has a decision on t. Of a run that has ended well, "open" means in the window.
  bool decided(std::int32_t t) const {
    return t < static_cast<std::int32_t>(evict_at.size()) && (open || evict_at[t] != kUndecided);
  }
};

HeadRows head_rows(const RunRecord& run, int layer, int kv_head) {
  return {.evict_at = run.evict_at.row(layer, kv_head),
          .open = run.status == RunStatus::running || run.status == RunStatus::failed};
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

float value_of(const HeadRows& rows, Metric metric, std::int32_t q, const RetentionGeometry& geometry) {
  const std::int32_t to = q - geometry.window;
  if (metric == Metric::density) return kept_share(rows, q, 0, to);
  if (metric == Metric::evict_ratio) return 1 - kept_share(rows, q, geometry.n_sink, to);
  return cache_share(rows, q);
}

float value_of(const OracleCounts& counts, Metric metric) {
  switch (metric) {
    case Metric::recall:
      return static_cast<float>(counts.recall());
    case Metric::chance:
      return static_cast<float>(counts.chance());
    case Metric::mass_kept:
      return static_cast<float>(counts.mass_kept());
    case Metric::mass_kept_but_first:
      return static_cast<float>(counts.mass_kept_but_first());
    case Metric::mass_recall:
      return static_cast<float>(counts.mass_recall());
    case Metric::regret:
      return static_cast<float>(1 - counts.mass_recall());
    default:
      return kNaN;
  }
}

/// Means over the queries up to q. Their weights make the mean over heads that over all pairs: a head's share above chance is
/// a quotient, so that its denominator weighs it.
void set_means(HeadMap& map, const Oracle& oracle, Metric metric, std::int32_t q) {
  const auto curves = oracle.curves();
  map.weights.assign(map.values.size(), 0);
  for (std::size_t head = 0; head < curves.size(); ++head) {
    const OracleMean mean = mean_of(std::span(curves[head]).first(static_cast<std::size_t>(q) + 1));
    const bool above = metric == Metric::above_chance;
    map.values[head] = static_cast<float>(above ? mean.above_chance() : mean.recall);
    if (mean.n > 0) map.weights[head] = static_cast<double>(mean.n) * (above ? 1 - mean.chance : 1);
  }
}

HeadMap empty_map(const RunRecord& run) {
  const int n_layers = run.model.n_layers, n_kv_heads = run.model.n_kv_heads;
  return {n_layers, n_kv_heads, std::vector<float>(static_cast<std::size_t>(n_layers) * n_kv_heads, kNaN)};
}

/// The last query that was made, at most q; -1 if there is none.
HeadMap reported_recall(const RunRecord& run) {
  HeadMap map = empty_map(run);
  if (run.recall_so_far.size() == map.values.size()) map.values = run.recall_so_far;
  return map;
}

std::int32_t last_query(const RunRecord& run, std::int32_t q) {
  return run.ids.empty() || run.evict_at.empty() ? -1 : std::min(q, run.queries() - 1);
}

/// NaN of a head that the model itself makes local: no policy decides there.
float counted_value(const RunRecord& run, Metric metric, int layer, int kv_head, std::int32_t q) {
  if (run.is_local_by_model(layer, kv_head)) return kNaN;
  return metric == Metric::read_share ? static_cast<float>(HeadReads(run, layer, kv_head, q).share())
                                      : value_of(head_rows(run, layer, kv_head), metric, q, run.geometry());
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

/// Recall at q is what the engine reported last: the run has no attention to the future yet.
bool tells_recall_so_far(const RunRecord& run, std::int32_t q) {
  return run.future_mass.empty() && !run.recall_so_far.empty() && q >= run.oracle_horizon - 1;
}

}  // namespace

std::span<const MetricInfo> metric_list() { return kMetrics; }

std::string MetricInfo::title_with_base() const {
  return std::string(title) + (base.empty() ? "" : " (" + std::string(base) + ")");
}

const MetricInfo* find_metric(std::string_view name) {
  for (const MetricInfo& info : kMetrics) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

HeadMap head_metric(const RunRecord& run, Metric metric, std::int32_t q) {
  if (metric == Metric::output_error) return output_error_map(run, q).map;
  if (metric == Metric::read_mass) return read_mass_map(run, run.output_error.read_mass, q);
  if (metric == Metric::best_read_mass) return read_mass_map(run, run.output_error.best_read_mass, q);
  if (std::ranges::find(kMetrics, metric, &MetricInfo::metric)->needs_oracle) {
    if (metric == Metric::recall && tells_recall_so_far(run, q)) return reported_recall(run);
    return head_metric(Oracle(run), run, metric, q);
  }
  HeadMap map = empty_map(run);
  q = last_query(run, q);
  if (q < 0) return map;
  auto value = map.values.begin();
  for (int layer = 0; layer < map.n_layers; ++layer) {
    for (int head = 0; head < map.n_kv_heads; ++head) *value++ = counted_value(run, metric, layer, head, q);
  }
  return map;
}

float head_value(const RunRecord& run, Metric metric, int layer, int kv_head, std::int32_t q) {
  const bool measured =
      metric == Metric::output_error || metric == Metric::read_mass || metric == Metric::best_read_mass;
  if (measured) return run.output_error.empty() ? kNaN : head_metric(run, metric, q).at(layer, kv_head);
  q = last_query(run, q);
  if (q < 0 || std::ranges::find(kMetrics, metric, &MetricInfo::metric)->needs_oracle) return kNaN;
  return counted_value(run, metric, layer, kv_head, q);
}

HeadMap head_metric(const Oracle& oracle, const RunRecord& run, Metric metric, std::int32_t q) {
  HeadMap map = empty_map(run);
  q = std::min(q, oracle.n_queries() - 1);
  if (q < 0 || !oracle.is_known()) return map;
  if (metric == Metric::mean_recall || metric == Metric::above_chance) {
    set_means(map, oracle, metric, q);
    return map;
  }
  auto value = map.values.begin();
  for (int layer = 0; layer < map.n_layers; ++layer) {
    for (int head = 0; head < map.n_kv_heads; ++head) *value++ = value_of(oracle.counts(layer, head, q), metric);
  }
  return map;
}

namespace {

/// visit(layer, kv_head) of each head in which a policy decides: not those that the model itself makes local. -> how many.
template <typename Visit>
int each_decided_head(const RunRecord& run, Visit visit) {
  int n_heads = 0;
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      if (run.is_local_by_model(layer, head)) continue;
      visit(layer, head);
      ++n_heads;
    }
  }
  return n_heads;
}

}  // namespace

bool prompt_was_dense(const RunRecord& run) {
  if (!policy_of(run.policy).plan(run.policy, run.geometry()).dense_prefill) return false;
  bool is_dense = true;
  each_decided_head(run, [&](int layer, int kv_head) {
    const auto& row = run.evict_at.row(layer, kv_head);
    is_dense = is_dense && std::ranges::none_of(row, [&](std::int32_t at) { return at < run.prompt_len; });
  });
  return is_dense;
}

TokenState token_state(const RunRecord& run, const RetentionGeometry& geometry, std::int32_t q, std::int32_t t,
                       std::int32_t evict_at) {
  const std::int32_t made = run.status == RunStatus::running ? std::min(q, run.queries() - 1) : q;
  if (t > made && t <= q) return TokenState::undecided;
  return token_state(made, t, evict_at, geometry.n_sink, geometry.window);
}

double mean(const HeadMap& map) {
  double sum = 0, weight = 0;
  for (std::size_t head = 0; head < map.values.size(); ++head) {
    if (std::isnan(map.values[head])) continue;
    sum += map.weight(head) * map.values[head];
    weight += map.weight(head);
  }
  return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN();
}

double mean_cache_size(const RunRecord& run) {
  const auto n = static_cast<std::size_t>(std::max(0, run.queries()));
  if (n == 0 || run.evict_at.empty()) return kNaN;
  std::vector<std::int64_t> held(n + 1, 0);  // by query, of all heads
  const int n_heads = each_decided_head(run, [&](int layer, int kv_head) {
    const auto& row = run.evict_at.row(layer, kv_head);
    for (std::size_t t = 0; t < std::min(n, row.size()); ++t) {
      const auto end = std::min(n, static_cast<std::size_t>(std::max(row[t], 0)));
      if (end <= t) continue;
      ++held[t];
      --held[end];
    }
  });
  if (n_heads == 0) return kNaN;
  double sum = 0;
  std::int64_t now = 0;
  for (std::size_t q = 0; q < n; ++q) {
    now += held[q];
    sum += static_cast<double>(now) / static_cast<double>(q + 1);
  }
  return sum / static_cast<double>(n) / n_heads;
}

double tokens_in_cache(const RunRecord& run, std::int32_t q) {
  return mean(head_metric(run, Metric::cache_share, q)) * (std::min(q, run.queries() - 1) + 1);
}

EvictionCount count_evictions(const RunRecord& run) {
  if (run.evict_at.empty()) return {};
  const std::int32_t n = std::max(0, run.queries());
  std::vector<bool> at(static_cast<std::size_t>(n), false), over = at;
  std::int64_t tokens = 0;
  const int n_heads = each_decided_head(run, [&](int layer, int kv_head) {
    const std::int32_t window = run.geometry(layer, kv_head).window;
    const auto& row = run.evict_at.row(layer, kv_head);
    for (std::size_t t = 0; t < row.size(); ++t) {
      const std::int32_t q = row[t];
      if (q < 0 || q >= n) continue;
      at[static_cast<std::size_t>(q)] = true;
      if (q - window > static_cast<std::int32_t>(t)) over[static_cast<std::size_t>(q)] = true;
      ++tokens;
    }
  });
  if (n_heads == 0) return {};
  return {static_cast<double>(tokens) / n_heads, static_cast<int>(std::ranges::count(at, true)),
          static_cast<int>(std::ranges::count(over, true))};
}

Occupancy occupancy(const RunRecord& run, int layer, int kv_head) {
  const RetentionGeometry geometry = run.geometry(layer, kv_head);
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
  // While the run goes on there is nothing to count behind the last query that was made.
  for (auto q = static_cast<std::size_t>(run.queries()); run.status == RunStatus::running && q < n; ++q)
    sinks[q] = window[q] = long_range[q] = 0;
  return {std::move(sinks), std::move(window), std::move(long_range)};
}

}  // namespace kvscope
