#pragma once
// A metric by layer, as a distribution over the heads, with what chance would have reached (KVpop Fig 7).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/figure_style.h"
#include "views/figure/head_set.h"

namespace kvscope::views {

struct MetricByLayerOptions {
  Metric metric = Metric::recall;
  std::int32_t q = -1;        // query position; -1: the last of each run
  bool with_b = false;        // exactly two runs, side by side in each layer; else all runs together
  bool common_oracle = true;  // of two runs, for metrics of the oracle: CommonOracle, else each its own
  bool chance = true;         // recall: a line at what as many tokens drawn at random reach
  double lo = 0, hi = 1;
  bool fit = false;  // the axis goes over the values instead
  bool preview = false, preview_b = false;
  std::string name_a = "A", name_b = "B";
  HeadSet heads;  // that count; empty: all
  bool operator==(const MetricByLayerOptions&) const = default;
};

/// Quartiles by linear interpolation between order statistics, whiskers at the farthest value within 1.5 of their
/// distance (Tukey). NaN throughout for no value.
struct Quartiles {
  int n = 0;
  double low = 0, q1 = 0, median = 0, q3 = 0, high = 0;
};
/// NaN among `values` is not counted.
Quartiles quartiles(std::vector<double> values);

/// One run's values, or those of several together.
struct LayerSeries {
  std::string name;  // "A"; empty for a single series
  struct Value {
    int run, kv_head;   // run: its number among those given
    double value;       // NaN: none
    double weight = 1;  // in the mean, HeadMap::weights
  };
  std::vector<std::vector<Value>> layers;
  std::vector<double> chance;  // mean over the layer's heads; empty unless asked for, NaN where nothing was chosen
  double mean = 0;             // over all values; NaN if there is none
};
struct LayerDistributions {
  std::vector<LayerSeries> series;
  double lo = 0, hi = 1;  // of the axis
  std::string
      oracle{};  // whose oracle: describe_own_oracle(), or " Both by one shared oracle, ..."; empty where none is asked
  int n_layers() const { return static_cast<int>(series.at(0).layers.size()); }
};
/// Throws Error (bad input): no run, shapes differ, with_b without exactly two runs.
LayerDistributions layer_distributions(std::span<const RunRecord* const> runs, const MetricByLayerOptions& options);

/// From so many values a layer on they are drawn as a box; fewer are dots, in the order of their heads.
inline constexpr int kBoxFrom = 30;

/// Panels: "by_layer" (columns = layers). Data: run ("all", "A", "B"), layer, kv_head, value, chance. Throws like
/// layer_distributions().
BuiltFigure metric_by_layer_figure(std::span<const RunRecord* const> runs, const MetricByLayerOptions& options,
                                   const FigureStyle& style);
/// The same of distributions that are known: counting them asks the oracle of every head.
BuiltFigure metric_by_layer_figure(const LayerDistributions& all, std::span<const RunRecord* const> runs,
                                   const MetricByLayerOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
