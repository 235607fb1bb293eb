#pragma once
// One value per (layer, KV head) as a heat map: density, evict ratio, cache share, recall (SP-KV Fig 4, KVpop Fig 8).

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_style.h"
#include "views/figure/head_set.h"

namespace kvscope::views {

// iqr: between the quartiles; no value below two runs.
enum class Aggregate : std::uint8_t { median, mean, min, max, iqr };
enum class MapCompare : std::uint8_t { none, side_by_side, difference };

/// The part of a scale's axis that the colours go over; beyond it they stay as they are at its ends.
struct ScaleClip {
  bool on = false;
  double lo = 0, hi = 1;
  bool operator==(const ScaleClip&) const = default;
};

struct LayerHeadMapOptions {
  Metric metric = Metric::density;
  std::int32_t q = -1;                      // query position; -1: the last of each run
  Aggregate aggregate = Aggregate::median;  // over several runs
  MapCompare compare = MapCompare::none;    // exactly two runs: A | B, or A - B
  bool common_oracle = true;                // of two runs, for metrics of the oracle: CommonOracle, else each its own
  Colormap colormap = Colormap::viridis;
  double lo = 0, hi = 1;                   // scale; a difference is symmetric, +-(hi - lo) or its largest value if fit
  bool fit = false;                        // scale to the values instead
  bool values = true;                      // print the value in a cell where it fits
  bool marginal = true;                    // mean of each layer at the right
  bool preview = false;                    // the runs (or A) are previews: dashed frame and badge
  bool preview_b = false;                  // B is one, when two are compared
  std::string name_a = "A", name_b = "B";  // over the maps, side by side
  bool layer_zero_on_top = true;
  bool sort = false;       // heads of each layer by value, greatest first; of two maps by that of A
  bool by_layer = false;   // each layer divided by its largest absolute value (over A and B where they share a scale)
  bool lock = true;        // A and B side by side by one scale, else each by its own
  ScaleClip clip, clip_b;  // clip_b is B's own, unless locked; of a difference the wider end counts for both
  bool histogram = false;  // how many heads have which value, at the colour bar
  HeadSet heads;           // marked: outlined on every map
  bool board = false;      // the marked heads are global: all others are drawn faint and hatched
  bool operator==(const LayerHeadMapOptions&) const = default;
};

const MetricInfo& metric_info(Metric metric);
/// Those that the map offers, in its order.
std::span<const Metric> map_metrics();

/// "median of 12 runs".
std::string describe_aggregate(Aggregate aggregate, std::size_t n_runs);

/// The numbers of the map: head_metric() of each run at q, aggregated over the runs that have a value (NaN if none).
/// Throws Error (bad input) if there is no run or their shapes differ.
HeadMap aggregate_metric(std::span<const RunRecord* const> runs, Metric metric, std::int32_t q, Aggregate aggregate);
/// Of how many runs each of these values is, and how many runs have one in any head.
struct RunCounts {
  std::vector<int> of_head;  // [n_layers * n_kv_heads]
  int of_any = 0, all = 0;
};
/// "median of 12 runs", then `at`; "median of 11 of 12 runs<at>: 1 has no value there" where one has none in any head.
std::string describe_aggregate(Aggregate aggregate, const RunCounts& counts, const std::string& at);
/// Of a head that n of `all` runs have a value of: "median of 11 of 12 runs", "spread over 12 runs".
std::string describe_aggregate_of_head(Aggregate aggregate, int n, int all);

/// What two runs of the same tokens are held against: CommonOracle::note(); empty where it is no metric of an oracle or
/// each run has its own.
std::string common_oracle_note(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& options);

/// The values of the map, so that its scale and order can change without counting them again.
struct LayerHeadMaps {
  struct Part {
    std::string name;  // "A", "B", "A − B"; empty for a single map
    HeadMap map;
    std::array<bool, 2> valued = {true, true};  // of a difference: whether any head of A, of B has a value
  };
  std::vector<Part> parts;
  std::string common_oracle;  // common_oracle_note()
  std::string own_oracle;     // describe_own_oracle(), where there is no common one
  RunCounts counts;           // of what is made of several runs
};
/// Depends on metric, q, aggregate, compare and common_oracle of the options alone. Throws Error (bad input): no run, shapes
/// differ, compare without exactly two runs, a difference of runs whose tokens differ at q.
LayerHeadMaps layer_head_maps(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& options);
/// The same values as they are drawn: divided layer by layer where the options say so; 0 / 0 is NaN.
std::vector<HeadMap> drawn_values(const LayerHeadMaps& maps, const LayerHeadMapOptions& options);
/// [n_layers * n_kv_heads] the head at each place of its layer, from the left: by index, or by value, the greatest first, of
/// equal ones the lower head, those without a value last.
std::vector<int> head_order(const HeadMap& map, bool sorted);
/// Whether two heads of a map have values that differ by more than 1e-6: a colour would tell them apart.
bool varies(const HeadMap& map);
/// What to look at: `now` if it varies over the heads of the run's last query, else the first of map_metrics() that does, else
/// `now`. Under a fixed budget all heads are as dense, and a map of that says nothing.
Metric varying_metric(const RunRecord& run, Metric now);

/// What the colour bar of map `which` goes over, and which part of it the colours do.
struct MapScale {
  double axis_lo = 0, axis_hi = 1, lo = 0, hi = 1;
};
MapScale map_scale(const std::vector<HeadMap>& drawn, std::size_t which, const LayerHeadMapOptions& options);
inline constexpr int kHistogramBins = 24;
/// Heads by value in so many equal parts of [lo, hi]; values beyond it count for the first and the last.
std::vector<int> value_histogram(std::span<const HeadMap> maps, double lo, double hi);

/// What the colours are of, at the bar; a small figure has the beginning of it, or nothing.
std::string colour_bar_title(const LayerHeadMapOptions& options);

/// Where two maps would be narrow the bar's title and histogram, B's layer numbers and the word at A's are left out, in this
/// order, and the heads' title stands once under both.
///
/// Panels: "map" (rows = layers, columns = KV heads or, sorted, places), "map.b" beside it for side_by_side; "bar", and
/// "bar.b" where B has its own (continuous). Data: run ("all", "A", "B", "A-B"), layer, kv_head, value, n; then, where the
/// options ask for them, place, drawn (the value that the colour shows), marked. Throws like layer_head_maps().
BuiltFigure layer_head_map_figure(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& options,
                                  const FigureStyle& style);
/// The same of values that are known.
BuiltFigure layer_head_map_figure(const LayerHeadMaps& maps, std::span<const RunRecord* const> runs,
                                  const LayerHeadMapOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
