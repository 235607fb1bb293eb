// The values of the layer x head map: metric, comparison, normalisation, order, scale. How they look is
// layer_head_map_figure.cpp's.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/core/study/measure/common_oracle.h"
#include "engine/core/study/measure/quantile.h"
#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/token_facts.h"

namespace kvscope::views {
namespace {

constexpr Metric kMetrics[] = {Metric::density,     Metric::evict_ratio, Metric::cache_share,  Metric::recall,
                               Metric::mass_recall, Metric::regret,      Metric::mean_recall,  Metric::above_chance,
                               Metric::mass_kept,   Metric::read_share,  Metric::output_error, Metric::read_mass};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float aggregate(std::vector<float> values, Aggregate how) {
  const std::size_t n = values.size();
  if (n < (how == Aggregate::iqr ? 2 : 1)) return kNan;
  std::sort(values.begin(), values.end());
  if (how == Aggregate::iqr) {
    const std::vector<double> sorted(values.begin(), values.end());
    return static_cast<float>(quantile(sorted, 0.75) - quantile(sorted, 0.25));
  }
  if (how == Aggregate::min) return values.front();
  if (how == Aggregate::max) return values.back();
  if (how == Aggregate::median) return (values[(n - 1) / 2] + values[n / 2]) / 2;
  double sum = 0;
  for (float v : values) sum += v;
  return static_cast<float>(sum / n);
}

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw Error({ExitCode::bad_input, "", "layer_head_map", found, expected, ""});
}

/// Of each run at q, or at its last query.
std::vector<HeadMap> maps_of(std::span<const RunRecord* const> runs, Metric metric, std::int32_t q) {
  if (runs.empty()) refuse("no run", "at least one");
  std::vector<HeadMap> maps;
  for (const RunRecord* run : runs) {
    maps.push_back(head_metric(*run, metric, resolve_query(*run, q)));
    if (maps.back().n_layers != maps[0].n_layers || maps.back().n_kv_heads != maps[0].n_kv_heads) {
      refuse("runs of different shapes", "the same number of layers and KV heads");
    }
  }
  return maps;
}

HeadMap aggregate_of(const std::vector<HeadMap>& maps, Aggregate how) {
  HeadMap result = maps[0];
  if (maps.size() > 1) result.weights.clear();  // every run's heads count the same
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    std::vector<float> values;
    for (const HeadMap& m : maps) {
      if (!std::isnan(m.values[i])) values.push_back(m.values[i]);
    }
    result.values[i] = aggregate(std::move(values), how);
  }
  return result;
}

RunCounts counts_of(const std::vector<HeadMap>& maps) {
  RunCounts counts{std::vector<int>(maps[0].values.size()), 0, static_cast<int>(maps.size())};
  for (const HeadMap& map : maps) {
    bool any = false;
    for (std::size_t i = 0; i < map.values.size(); ++i) {
      const bool has = !std::isnan(map.values[i]);
      counts.of_head[i] += has;
      any |= has;
    }
    counts.of_any += any;
  }
  return counts;
}

constexpr std::string_view kAggregateNames[] = {"median", "mean", "minimum", "maximum", "interquartile range"};

std::string counted_runs(std::size_t n) { return std::to_string(n) + (n == 1 ? " run" : " runs"); }

/// "12 runs", "11 of 12 runs".
std::string counted_of(int n, int all) {
  return (n == all ? "" : std::to_string(n) + " of ") + counted_runs(static_cast<std::size_t>(all));
}

/// B - A, as in every other view: what B has more than A.
HeadMap difference(const HeadMap& a, const HeadMap& b) {
  HeadMap d = b;
  for (std::size_t i = 0; i < d.values.size(); ++i) d.values[i] -= a.values[i];
  return d;
}

bool has_value(const HeadMap& map) {
  return std::ranges::any_of(map.values, [](float v) { return !std::isnan(v); });
}

bool has_common_oracle(const LayerHeadMapOptions& o) {
  return o.compare != MapCompare::none && o.common_oracle && metric_info(o.metric).needs_oracle;
}

HeadMap map_of_pair(std::span<const RunRecord* const> runs, std::size_t i, const LayerHeadMapOptions& o) {
  if (has_common_oracle(o)) {
    if (const auto common = CommonOracle::of(*runs[0], *runs[1]))
      return common->metric(*runs[i], o.metric, resolve_query(*runs[i], o.q));
  }
  return aggregate_metric(runs.subspan(i, 1), o.metric, o.q, o.aggregate);
}

/// Of two runs.
std::vector<LayerHeadMaps::Part> parts_of(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& o) {
  if (runs.size() != 2) refuse(std::to_string(runs.size()) + " runs to compare", "exactly two");
  HeadMap a = map_of_pair(runs, 0, o);
  HeadMap b = map_of_pair(runs, 1, o);
  if (a.n_layers != b.n_layers || a.n_kv_heads != b.n_kv_heads)
    refuse("runs of different shapes", "the same layers and heads");
  if (o.compare == MapCompare::difference && tokens_part(*runs[0], *runs[1])) {
    const int common = common_prefix(*runs[0], *runs[1]);
    if (std::max(resolve_query(*runs[0], o.q), resolve_query(*runs[1], o.q)) >= common)
      refuse("a difference of runs whose tokens diverge at " + std::to_string(common),
             "the same tokens up to the query, or side_by_side");
  }
  if (o.compare == MapCompare::difference) return {{"B − A", difference(a, b), {has_value(a), has_value(b)}}};
  return {{"A", std::move(a), {}}, {"B", std::move(b), {}}};
}

std::span<float> layer_of(HeadMap& map, int layer) {
  const auto n = static_cast<std::size_t>(map.n_kv_heads);
  return std::span(map.values).subspan(static_cast<std::size_t>(layer) * n, n);
}

float largest_in_layer(HeadMap& map, int layer) {
  float largest = 0;
  for (const float v : layer_of(map, layer)) {
    if (!std::isnan(v)) largest = std::max(largest, std::abs(v));
  }
  return largest;
}

/// What one divisor a layer is for.
void divide_layers(std::span<HeadMap> together) {
  for (int layer = 0; layer < together.front().n_layers; ++layer) {
    float largest = 0;
    for (HeadMap& map : together) largest = std::max(largest, largest_in_layer(map, layer));
    for (HeadMap& map : together) {
      for (float& v : layer_of(map, layer)) v /= largest;  // 0 / 0: nothing in this layer to compare
    }
  }
}

/// Of the finite values; nothing above something where there is none.
std::pair<double, double> extent(std::span<const HeadMap> maps) {
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  for (const HeadMap& map : maps) {
    for (const float v : map.values) {
      if (!std::isnan(v)) lo = std::min<double>(lo, v), hi = std::max<double>(hi, v);
    }
  }
  return {lo, hi};
}

bool one_scale(const LayerHeadMapOptions& o) { return o.lock || o.compare != MapCompare::side_by_side; }

/// The maps that the scale of map `which` is for.
std::span<const HeadMap> on_scale(const std::vector<HeadMap>& drawn, std::size_t which, const LayerHeadMapOptions& o) {
  return one_scale(o) ? std::span(drawn) : std::span(drawn).subspan(which, 1);
}

}  // namespace

const MetricInfo& metric_info(Metric metric) { return *std::ranges::find(metric_list(), metric, &MetricInfo::metric); }

std::span<const Metric> map_metrics() { return kMetrics; }

Metric varying_metric(const RunRecord& run, Metric now) {
  if (run.n_tokens() == 0 || run.evict_at.empty()) return now;
  const auto is_varied = [&](Metric metric) { return varies(head_metric(run, metric, run.n_tokens() - 1)); };
  if (is_varied(now)) return now;
  const auto first = std::ranges::find_if(kMetrics, is_varied);
  return first == std::end(kMetrics) ? now : *first;
}

std::string common_oracle_note(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& o) {
  if (!has_common_oracle(o) || runs.size() != 2) return {};
  const auto common = CommonOracle::of(*runs[0], *runs[1]);
  return common ? common->note(*runs[0], *runs[1], resolve_query(*runs[0], o.q)) : std::string();
}

std::string describe_aggregate(Aggregate how, std::size_t n_runs) {
  return std::string(kAggregateNames[static_cast<int>(how)]) + " of " + counted_runs(n_runs);
}

std::string describe_aggregate(Aggregate how, const RunCounts& counts, const std::string& at) {
  const int without = counts.all - counts.of_any;
  if (without == 0) return describe_aggregate(how, static_cast<std::size_t>(counts.all)) + at;
  return std::string(kAggregateNames[static_cast<int>(how)]) + " of " + counted_of(counts.of_any, counts.all) + at +
         ": " + std::to_string(without) + (without == 1 ? " has" : " have") + " no value there";
}

std::string describe_aggregate_of_head(Aggregate how, int n, int all) {
  const std::string name =
      how == Aggregate::iqr ? "spread over " : std::string(kAggregateNames[static_cast<int>(how)]) + " of ";
  return name + counted_of(n, all);
}

HeadMap aggregate_metric(std::span<const RunRecord* const> runs, Metric metric, std::int32_t q, Aggregate how) {
  return aggregate_of(maps_of(runs, metric, q), how);
}

LayerHeadMaps layer_head_maps(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& o) {
  if (o.compare != MapCompare::none) {
    std::string common = common_oracle_note(runs, o);
    std::string own = common.empty() ? describe_own_oracle(runs, o.metric, o.q) : "";
    return {parts_of(runs, o), std::move(common), std::move(own), {}};
  }
  const std::vector<HeadMap> maps = maps_of(runs, o.metric, o.q);
  return {{{"", aggregate_of(maps, o.aggregate), {}}}, {}, describe_own_oracle(runs, o.metric, o.q), counts_of(maps)};
}

std::vector<HeadMap> drawn_values(const LayerHeadMaps& maps, const LayerHeadMapOptions& o) {
  std::vector<HeadMap> drawn;
  for (const LayerHeadMaps::Part& part : maps.parts) drawn.push_back(part.map);
  if (!o.by_layer) return drawn;
  if (one_scale(o)) {
    divide_layers(drawn);
  } else {
    for (HeadMap& map : drawn) divide_layers({&map, 1});
  }
  return drawn;
}

std::vector<int> head_order(const HeadMap& map, bool sorted) {
  std::vector<int> order;
  for (int layer = 0; layer < map.n_layers; ++layer) {
    std::vector<int> heads(static_cast<std::size_t>(map.n_kv_heads));
    std::iota(heads.begin(), heads.end(), 0);
    const auto before = [&](int a, int b) {
      const float va = map.at(layer, a), vb = map.at(layer, b);
      return !std::isnan(va) && (std::isnan(vb) || va > vb);
    };
    if (sorted) std::ranges::stable_sort(heads, before);
    order.insert(order.end(), heads.begin(), heads.end());
  }
  return order;
}

bool varies(const HeadMap& map) {
  const auto [lo, hi] = extent({&map, 1});
  return hi - lo > 1e-6;
}

MapScale map_scale(const std::vector<HeadMap>& drawn, std::size_t which, const LayerHeadMapOptions& o) {
  const auto [lo, hi] = extent(on_scale(drawn, which, o));
  MapScale scale{o.lo, o.hi, 0, 0};
  const bool is_difference = o.compare == MapCompare::difference;
  if (o.by_layer) scale.axis_lo = is_difference || lo < 0 ? -1 : 0, scale.axis_hi = 1;
  if (is_difference) {
    double reach = o.fit && hi >= lo ? std::max(std::abs(lo), std::abs(hi)) : o.by_layer ? 1 : o.hi - o.lo;
    if (reach <= 0) reach = 1;
    scale.axis_lo = -reach, scale.axis_hi = reach;
  } else if (o.fit && hi > lo) {
    scale.axis_lo = lo, scale.axis_hi = hi;
  }
  scale.lo = scale.axis_lo, scale.hi = scale.axis_hi;
  const ScaleClip& clip = which == 1 && !one_scale(o) ? o.clip_b : o.clip;
  if (!clip.on) return scale;
  double from = std::max(scale.axis_lo, clip.lo), to = std::min(scale.axis_hi, clip.hi);
  if (is_difference) {  // white stays at 0
    to = std::min(scale.axis_hi, std::max(std::abs(clip.lo), std::abs(clip.hi)));
    from = -to;
  }
  if (to > from) scale.lo = from, scale.hi = to;  // else the thumbs are of another axis
  return scale;
}

std::vector<int> value_histogram(std::span<const HeadMap> maps, double lo, double hi) {
  std::vector<int> bins(kHistogramBins);
  for (const HeadMap& map : maps) {
    for (const float v : map.values) {
      if (std::isnan(v)) continue;
      const double at = hi > lo ? (v - lo) / (hi - lo) * kHistogramBins : 0;
      ++bins[static_cast<std::size_t>(std::clamp(at, 0.0, kHistogramBins - 1.0))];
    }
  }
  return bins;
}

}  // namespace kvscope::views
