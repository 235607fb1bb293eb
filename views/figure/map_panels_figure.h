#pragma once
// Layer x head maps of several runs beside each other: A | B | B - A with one scale for A and B (WG-KV Fig 13: two tasks), or
// the mean over prompts and its standard deviation.

#include <span>
#include <string>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

enum class MapPanels : std::uint8_t { difference, spread };

struct MapPanelsOptions {
  Metric metric = Metric::density;
  std::int32_t q = -1;                       // query position; -1: the last of each run
  MapPanels panels = MapPanels::difference;  // A | B | B - A, or mean | standard deviation
  int runs_a = 1;                            // the first so many runs are A, the others B; each side is a mean
  Colormap colormap = Colormap::viridis;
  double lo = 0, hi = 1;  // scale of A, B and the mean
  bool fit = false;       // to the values instead; the other panel's scale always is
  bool values = true;
  std::string name_a = "A", name_b = "B";
  bool layer_zero_on_top = true;
  bool operator==(const MapPanelsOptions&) const = default;
};

/// Mean over the runs that have a value, and the standard deviation of these (n - 1; NaN below two). In `n` how many they are.
struct MapSpread {
  HeadMap mean, deviation;
  std::vector<int> n;
};
/// Throws Error (bad input): no run, different shapes.
MapSpread map_spread(std::span<const RunRecord* const> runs, Metric metric, std::int32_t q);

/// Panels: "map", "map.b", "map.difference", or "map", "map.deviation" (rows = layers, columns = KV heads). Data: run ("A", "B",
/// "B-A", "mean", "sd"), layer, kv_head, value, n. Throws Error (bad input): no run on either side, one run alone for a spread,
/// shapes that differ.
BuiltFigure map_panels_figure(std::span<const RunRecord* const> runs, const MapPanelsOptions& options,
                              const FigureStyle& style);

}  // namespace kvscope::views
