#include "views/figure/metric_by_layer_figure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/core/study/measure/common_oracle.h"
#include "engine/core/study/measure/quantile.h"
#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_facts.h"

namespace kvscope::views {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw Error({ExitCode::bad_input, "", "metric_by_layer", found, expected, ""});
}

std::optional<CommonOracle> yardstick(std::span<const RunRecord* const> runs, const MetricByLayerOptions& o) {
  if (!o.with_b || !o.common_oracle || !metric_info(o.metric).needs_oracle) return std::nullopt;
  return CommonOracle::of(*runs[0], *runs[1]);
}

HeadMap map_of(const RunRecord& run, const std::optional<CommonOracle>& common, Metric metric, std::int32_t q) {
  return common ? common->metric(run, metric, q) : head_metric(run, metric, q);
}

bool counts(const MetricByLayerOptions& o, int layer, int head) {
  return o.heads.empty() || o.heads.contains({layer, head});
}

double mean_of_row(const HeadMap& map, int layer, const MetricByLayerOptions& o) {
  double sum = 0;
  int n = 0;
  for (int head = 0; head < map.n_kv_heads; ++head) {
    if (const float v = map.at(layer, head); !std::isnan(v) && counts(o, layer, head)) sum += v, ++n;
  }
  return n > 0 ? sum / n : kNan;
}

void add_run(LayerSeries& series, int number, const HeadMap& map, const MetricByLayerOptions& o) {
  series.layers.resize(static_cast<std::size_t>(map.n_layers));
  for (int layer = 0; layer < map.n_layers; ++layer) {
    for (int head = 0; head < map.n_kv_heads; ++head) {
      if (counts(o, layer, head))
        series.layers[static_cast<std::size_t>(layer)].push_back(
            {number, head, map.at(layer, head),
             map.weight(static_cast<std::size_t>(layer) * static_cast<std::size_t>(map.n_kv_heads) +
                        static_cast<std::size_t>(head))});
    }
  }
}

/// Chance means the same of every run in it only if they were asked the same; over several it is their mean.
void add_chance(LayerSeries& series, const std::vector<HeadMap>& of_runs, const MetricByLayerOptions& o) {
  for (std::size_t layer = 0; layer < series.layers.size(); ++layer) {
    double sum = 0;
    int n = 0;
    for (const HeadMap& map : of_runs) {
      if (const double v = mean_of_row(map, static_cast<int>(layer), o); !std::isnan(v)) sum += v, ++n;
    }
    series.chance.push_back(n > 0 ? sum / n : kNan);
  }
}

double mean_of(const LayerSeries& series) {
  double sum = 0, weight = 0;
  for (const auto& layer : series.layers) {
    for (const LayerSeries::Value& v : layer) {
      if (!std::isnan(v.value)) sum += v.weight * v.value, weight += v.weight;
    }
  }
  return weight > 0 ? sum / weight : kNan;
}

/// A little more than the values take, so that no dot lies on the frame.
void fit_axis(LayerDistributions& all) {
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  const auto take = [&](double v) {
    if (!std::isnan(v)) lo = std::min(lo, v), hi = std::max(hi, v);
  };
  for (const LayerSeries& series : all.series) {
    for (const auto& layer : series.layers) {
      for (const LayerSeries::Value& v : layer) take(v.value);
    }
    std::ranges::for_each(series.chance, take);
  }
  if (!(hi > lo)) return;
  all.lo = lo - 0.04 * (hi - lo), all.hi = hi + 0.04 * (hi - lo);
}

/// Where one series of one layer is drawn.
struct Slot {
  Box box;        // the axes
  double x, w;    // middle and width
  double lo, hi;  // of the axis
  double y(double v) const { return box.bottom() - std::clamp((v - lo) / (hi - lo), 0.0, 1.0) * box.h; }
};

void draw_dots(FigureBuilder& b, const Slot& slot, const std::vector<LayerSeries::Value>& values, Colour colour) {
  const double pitch = slot.w / static_cast<double>(values.size()), r = std::clamp(pitch * 0.42, 0.7, 1.7);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i].value)) continue;
    const Point at{slot.x - slot.w / 2 + (static_cast<double>(i) + 0.5) * pitch, slot.y(values[i].value)};
    b.add(FillBox{{at.x - r, at.y - r, 2 * r, 2 * r}, colour, r});
  }
}

void draw_box(FigureBuilder& b, const Slot& slot, const std::vector<LayerSeries::Value>& values, const Quartiles& q,
              Colour colour) {
  const Box body{slot.x - slot.w / 2, slot.y(q.q3), slot.w, std::max(0.5, slot.y(q.q1) - slot.y(q.q3))};
  b.add(FillBox{body, mix(b.style().paper, colour, 0.35)});
  b.add(StrokeBox{body, colour, 0.6});
  b.line({slot.x, body.y}, {slot.x, slot.y(q.high)}, colour, 0.6);
  b.line({slot.x, body.bottom()}, {slot.x, slot.y(q.low)}, colour, 0.6);
  const double r = std::clamp(slot.w * 0.08, 0.5, 1.0);
  for (const LayerSeries::Value& v : values) {
    if (std::isnan(v.value) || (v.value >= q.low && v.value <= q.high)) continue;
    b.add(FillBox{{slot.x - r, slot.y(v.value) - r, 2 * r, 2 * r}, colour, r});
  }
}

void draw_series(FigureBuilder& b, const Box& box, const LayerDistributions& all, std::size_t which) {
  const LayerSeries& series = all.series[which];
  const Colour colour = series_colour(which, b.style().dark);
  const double pitch = box.w / all.n_layers(), share = 0.78 / static_cast<double>(all.series.size());
  for (int layer = 0; layer < all.n_layers(); ++layer) {
    const auto& values = series.layers[static_cast<std::size_t>(layer)];
    const double middle = (static_cast<double>(which) + 0.5) / static_cast<double>(all.series.size()) - 0.5;
    const Slot slot{box, box.x + (layer + 0.5 + middle * 0.82) * pitch, pitch * share, all.lo, all.hi};
    std::vector<double> numbers;
    for (const LayerSeries::Value& v : values) numbers.push_back(v.value);
    const Quartiles q = quartiles(numbers);
    if (q.n == 0) continue;
    if (q.n >= kBoxFrom) {
      draw_box(b, slot, values, q, colour);
    } else {
      draw_dots(b, slot, values, colour);
    }
    b.line({slot.x - slot.w / 2, slot.y(q.median)}, {slot.x + slot.w / 2, slot.y(q.median)}, b.style().ink, 1);
    if (series.chance.empty() || std::isnan(series.chance[static_cast<std::size_t>(layer)])) continue;
    const double chance = slot.y(series.chance[static_cast<std::size_t>(layer)]);
    b.line({slot.x - slot.w / 2, chance}, {slot.x + slot.w / 2, chance}, b.style().muted, 0.8, 1.5);
  }
  if (std::isnan(series.mean)) return;
  const double y = Slot{box, 0, 0, all.lo, all.hi}.y(series.mean);
  b.line({box.x, y}, {box.right(), y}, with_alpha(colour, 190), 0.6, 4);
}

std::vector<LegendEntry> legend_entries(const LayerDistributions& all, const FigureStyle& style) {
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < all.series.size(); ++i) {
    const LayerSeries& series = all.series[i];
    const std::string name = series.name.empty() ? "mean " : series.name + ", mean ";
    entries.push_back({LegendEntry::Mark::swatch, name + format_number(series.mean, 3), series_colour(i, style.dark)});
  }
  entries.push_back({LegendEntry::Mark::swatch, "bar: median", style.ink});
  if (!all.series[0].chance.empty()) entries.push_back({LegendEntry::Mark::line, "chance", style.muted});
  return entries;
}

void draw_axes(FigureBuilder& b, const Box& box, const LayerDistributions& all, const MetricByLayerOptions& o) {
  const FigureStyle& s = b.style();
  std::vector<Tick> x, y;
  const double pitch = box.w / all.n_layers();
  const int stride = tick_stride(all.n_layers(), pitch, text_width("00", FontRole::text, s.tick_size) + 3);
  for (int l = 0; l < all.n_layers(); l += stride) x.push_back({box.x + (l + 0.5) * pitch, std::to_string(l)});
  for (const double v : nice_values(all.lo, all.hi, std::max(2, static_cast<int>(box.h / (s.tick_size * 2.5))))) {
    const double at = Slot{box, 0, 0, all.lo, all.hi}.y(v);
    b.line({box.x, at}, {box.right(), at}, mix(s.paper, s.rule, 0.25), s.rule_width * 0.8);
    y.push_back({at, format_number(v)});
  }
  b.x_ticks(box, x);
  b.y_ticks(box, y);
  b.label("Layer",
          {box.centre().x, box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6});
  b.label(std::string(metric_info(o.metric).title), {s.label_size / 2 + 1, box.centre().y}, Anchor::middle, 90);
}

FigureData tidy(const LayerDistributions& all) {
  std::vector<std::string> run;
  std::vector<std::int64_t> number, layer, head;
  std::vector<double> value, chance, weight;
  for (const LayerSeries& series : all.series) {
    for (std::size_t l = 0; l < series.layers.size(); ++l) {
      for (const LayerSeries::Value& v : series.layers[l]) {
        run.push_back(series.name.empty() ? "all" : series.name);
        number.push_back(v.run), layer.push_back(static_cast<std::int64_t>(l)), head.push_back(v.kv_head);
        weight.push_back(v.weight);
        value.push_back(v.value), chance.push_back(series.chance.empty() ? kNan : series.chance[l]);
      }
    }
  }
  FigureData data{
      {{"run", run}, {"number", number}, {"layer", layer}, {"kv_head", head}, {"value", value}, {"chance", chance}}};
  // Of a value in the mean over heads.
  if (std::ranges::any_of(weight, [](double w) { return w != 1; })) data.columns.push_back({"weight", weight});
  return data;
}

std::size_t most_of_a_layer(const LayerDistributions& all) {
  std::size_t most = 0;
  for (const auto& layer : all.series[0].layers) most = std::max(most, layer.size());
  return most;
}

std::string describe(std::span<const RunRecord* const> runs, const LayerDistributions& all,
                     const MetricByLayerOptions& o) {
  const MetricInfo& info = metric_info(o.metric);
  std::string text = std::string(info.title) + " by layer, one " +
                     (most_of_a_layer(all) >= kBoxFrom
                          ? "box per layer over KV heads and runs (quartiles, whiskers within 1.5 interquartile ranges)"
                      : runs.size() > 1 && !o.with_b ? "dot per KV head and run"
                                                     : "dot per KV head") +
                     ", bar: median";
  text += o.q < 0 ? ", at the last query position" : ", at query position " + std::to_string(o.q);
  if (!o.heads.empty()) text += ", heads " + to_text(o.heads);
  text += ". Definition: " + std::string(info.definition) + ". ";
  if (!all.series[0].chance.empty()) text += "Dotted: a random choice of the same size. ";
  if (!o.with_b) {
    text += describe_run(*runs[0]);
    if (runs.size() > 1)
      text += " And " + std::to_string(runs.size() - 1) + (runs.size() == 2 ? " more run." : " more runs.");
  } else {
    text += "A: " + describe_run(*runs[0]) + " B: " + describe_run(*runs[1]);
  }
  return text + all.oracle + describe_preview(o.preview || o.preview_b);
}

}  // namespace

Quartiles quartiles(std::vector<double> values) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  std::ranges::sort(values);
  const std::size_t n = values.size();
  if (n == 0) return {0, kNan, kNan, kNan, kNan, kNan};
  Quartiles q{static_cast<int>(n), 0, quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75), 0};
  const double reach = 1.5 * (q.q3 - q.q1);
  q.low = *std::ranges::lower_bound(values, q.q1 - reach);
  q.high = *(std::ranges::upper_bound(values, q.q3 + reach) - 1);
  return q;
}

LayerDistributions layer_distributions(std::span<const RunRecord* const> runs, const MetricByLayerOptions& o) {
  if (runs.empty()) refuse("no run", "at least one");
  if (o.with_b && runs.size() != 2) refuse(std::to_string(runs.size()) + " runs to compare", "exactly two");
  for (const RunRecord* run : runs) {
    if (!same_shape(*run, *runs[0])) refuse("runs of different shapes", "the same layers and heads");
  }
  const std::optional<CommonOracle> common = yardstick(runs, o);
  LayerDistributions all{.series = {}, .lo = o.lo, .hi = o.hi};
  all.oracle =
      common ? " A and B are judged by one " + common->note(*runs[0], *runs[1], resolve_query(*runs[0], o.q)) + "."
             : describe_own_oracle(runs, o.metric, o.q);
  std::vector<HeadMap> chance;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (all.series.empty() || o.with_b)
      all.series.push_back({.name = !o.with_b ? "" : i == 0 ? o.name_a : o.name_b, .layers = {}, .chance = {}});
    const std::int32_t q = resolve_query(*runs[i], o.q);
    add_run(all.series.back(), static_cast<int>(i), map_of(*runs[i], common, o.metric, q), o);
    if (!o.chance || o.metric != Metric::recall) continue;
    chance.push_back(map_of(*runs[i], common, Metric::chance, q));
    if (o.with_b || i + 1 == runs.size()) add_chance(all.series.back(), chance, o), chance.clear();
  }
  for (LayerSeries& series : all.series) series.mean = mean_of(series);
  if (o.fit) fit_axis(all);
  return all;
}

BuiltFigure metric_by_layer_figure(std::span<const RunRecord* const> runs, const MetricByLayerOptions& o,
                                   const FigureStyle& s) {
  return metric_by_layer_figure(layer_distributions(runs, o), runs, o, s);
}

BuiltFigure metric_by_layer_figure(const LayerDistributions& all, std::span<const RunRecord* const> runs,
                                   const MetricByLayerOptions& o, const FigureStyle& s) {
  const bool preview = o.preview || o.preview_b;
  FigureBuilder measure(s.width, 0, s);
  const auto legend = legend_entries(all, s);
  const double left =
      s.label_size + 4 + text_width("0.00", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
  const double width = std::max(20.0, s.width - left - 3);
  const double top = measure.legend({0, 0}, width, legend, true) + 3 + (preview ? measure.preview_height() + 2 : 0);
  const double bottom = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  const double height = s.height > 0 ? std::max(20.0, s.height - top - bottom) : s.width * 0.42;

  FigureBuilder b(s.width, top + height + bottom, s);
  b.legend({left, 0}, width, legend);
  const Box box{left, top, width, height};
  draw_axes(b, box, all, o);
  for (std::size_t i = 0; i < all.series.size(); ++i) draw_series(b, box, all, i);
  b.frame(box);
  b.figure().panels.push_back({"by_layer", box, all.n_layers(), 1});
  if (preview) {
    b.preview_frame(box);
    b.preview_badge(left + width + 2, top - 4);
  }
  b.figure().title = std::string(metric_info(o.metric).title) + " by layer";
  return {std::move(b.figure()), tidy(all), describe(runs, all, o)};
}

}  // namespace kvscope::views
