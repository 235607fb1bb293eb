#pragma once
// One value per (layer, KV head) as a heat map: density, evict ratio, cache share, recall (SP-KV Fig 4, KVpop Fig 8).

#include <cstdint>
#include <span>
#include <string>

#include "engine/core/study/retention_metrics.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

enum class Aggregate : std::uint8_t { median, mean, min, max };
enum class MapCompare : std::uint8_t { none, side_by_side, difference };

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
  bool operator==(const LayerHeadMapOptions&) const = default;
};

const MetricInfo& metric_info(Metric metric);

/// The numbers of the map: head_metric() of each run at q, aggregated over the runs that have a value (NaN if none).
/// Throws Error (bad input) if there is no run or their shapes differ.
HeadMap aggregate_metric(std::span<const RunRecord* const> runs, Metric metric, std::int32_t q, Aggregate aggregate);

/// What two runs of the same tokens are held against: CommonOracle::note(); empty where it is no metric of an oracle or
/// each run has its own.
std::string common_oracle_note(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& options);

/// Panels: "map" (rows = layers, columns = KV heads), "map.b" beside it for side_by_side. Data: run ("all", "A", "B",
/// "A-B"), layer, kv_head, value, n. Throws Error (bad input): no run, shapes differ, compare without exactly two runs.
BuiltFigure layer_head_map_figure(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& options,
                                  const FigureStyle& style);

}  // namespace kvscope::views
