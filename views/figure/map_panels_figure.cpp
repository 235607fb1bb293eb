#include "views/figure/map_panels_figure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/fonts.h"
#include "views/figure/head_map_panel.h"
#include "views/figure/layer_head_map_figure.h"

namespace kvscope::views {
namespace {

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw Error({ExitCode::bad_input, "", "figure", found, expected, ""});
}

struct NamedMap {
  std::string id, run, title;
  HeadMap map;
  std::vector<int> n;
  ColourScale scale;
  bool bar_behind;  // a colour bar at its right
};

/// Least and largest value, {0, 0} of none.
std::pair<double, double> reach(const HeadMap& map) {
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  for (const float v : map.values) {
    if (!std::isnan(v)) lo = std::min<double>(lo, v), hi = std::max<double>(hi, v);
  }
  return hi >= lo ? std::pair(lo, hi) : std::pair(0.0, 0.0);
}

ColourScale fitted(ColourScale scale, const std::vector<const HeadMap*>& maps) {
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  for (const HeadMap* map : maps) lo = std::min(lo, reach(*map).first), hi = std::max(hi, reach(*map).second);
  if (hi > lo) scale.lo = lo, scale.hi = hi;
  return scale;
}

std::vector<NamedMap> difference_maps(std::span<const RunRecord* const> runs, const MapPanelsOptions& o) {
  const auto n_a = static_cast<std::size_t>(std::max(o.runs_a, 0));
  if (n_a < 1 || runs.size() <= n_a)
    refuse(std::to_string(runs.size()) + " runs, of which " + std::to_string(o.runs_a) + " are A",
           "at least one on each side");
  const MapSpread a = map_spread(runs.first(n_a), o.metric, o.q), b = map_spread(runs.subspan(n_a), o.metric, o.q);
  if (a.mean.n_layers != b.mean.n_layers || a.mean.n_kv_heads != b.mean.n_kv_heads)
    refuse("runs of different shapes", "the same layers and heads");
  HeadMap difference = b.mean;
  std::vector<int> n = b.n;
  for (std::size_t i = 0; i < difference.values.size(); ++i)
    difference.values[i] -= a.mean.values[i], n[i] = std::min(n[i], a.n[i]);
  difference.weights.clear();
  ColourScale scale{o.colormap, o.lo, o.hi, 0, std::string(metric_info(o.metric).title)};
  if (o.fit) scale = fitted(scale, {&a.mean, &b.mean});
  const auto [lo, hi] = reach(difference);
  const double most = std::max({std::abs(lo), std::abs(hi), 1e-6});
  const ColourScale of_difference{Colormap::diverging, -most, most, 0, o.name_b + " − " + o.name_a};
  return {{"map", "A", o.name_a, a.mean, a.n, scale, false},
          {"map.b", "B", o.name_b, b.mean, b.n, scale, true},
          {"map.difference", "B-A", o.name_b + " − " + o.name_a, difference, n, of_difference, true}};
}

std::vector<NamedMap> spread_maps(std::span<const RunRecord* const> runs, const MapPanelsOptions& o) {
  if (runs.size() < 2)
    refuse(std::to_string(runs.size()) + (runs.size() == 1 ? " run" : " runs"), "at least two, for a spread");
  const MapSpread all = map_spread(runs, o.metric, o.q);
  ColourScale mean{o.colormap, o.lo, o.hi, 0, std::string(metric_info(o.metric).title)};
  if (o.fit) mean = fitted(mean, {&all.mean});
  ColourScale deviation{Colormap::cividis, 0, std::max(reach(all.deviation).second, 1e-6), 0, "Standard deviation"};
  return {{"map", "mean", "Mean of " + std::to_string(runs.size()), all.mean, all.n, mean, true},
          {"map.deviation", "sd", "s.d.", all.deviation, all.n, deviation, true}};
}

FigureData tidy(const std::vector<NamedMap>& maps) {
  std::vector<std::string> run;
  std::vector<std::int64_t> layer, head, n;
  std::vector<double> value;
  for (const NamedMap& m : maps) {
    for (int l = 0; l < m.map.n_layers; ++l) {
      for (int h = 0; h < m.map.n_kv_heads; ++h) {
        run.push_back(m.run), layer.push_back(l), head.push_back(h), value.push_back(m.map.at(l, h));
        n.push_back(m.n[static_cast<std::size_t>(l) * m.map.n_kv_heads + h]);
      }
    }
  }
  return {{{"run", run}, {"layer", layer}, {"kv_head", head}, {"value", value}, {"n", n}}};
}

std::string describe(std::span<const RunRecord* const> runs, const std::vector<NamedMap>& maps,
                     const MapPanelsOptions& o) {
  const MetricInfo& info = metric_info(o.metric);
  std::string text = std::string(info.title) + " of each layer and KV head";
  text += o.q < 0 ? " at the last query position" : " at query position " + std::to_string(o.q);
  const auto side = [&](std::size_t first, std::size_t n) {
    return (n > 1 ? "mean of " + std::to_string(n) + " runs, the first: " : "") + describe_run(*runs[first]);
  };
  if (o.panels == MapPanels::spread) {
    text += ", mean over " + std::to_string(runs.size()) +
            " runs and their standard deviation (n − 1), each with its own scale";
    text += ". Definition: " + std::string(info.definition) + ". The first: " + describe_run(*runs[0]);
  } else {
    const auto n_a = static_cast<std::size_t>(o.runs_a);
    text += ", " + o.name_a + " and " + o.name_b + " on one scale, and their difference";
    text += ". Definition: " + std::string(info.definition) + ". " + o.name_a + ": " + side(0, n_a) + " " + o.name_b +
            ": " + side(n_a, runs.size() - n_a);
    if (info.needs_oracle) text += " Each is judged by its own oracle.";
  }
  for (const NamedMap& m : maps) text += " Mean over heads of " + m.title + ": " + format_number(mean(m.map)) + ".";
  std::vector<HeadMap> values;
  for (const NamedMap& m : maps) values.push_back(m.map);
  return text + std::string(hatch_note(values));
}

}  // namespace

MapSpread map_spread(std::span<const RunRecord* const> runs, Metric metric, std::int32_t q) {
  if (runs.empty()) refuse("no run", "at least one");
  std::vector<HeadMap> maps;
  for (const RunRecord* run : runs) {
    maps.push_back(head_metric(*run, metric, resolve_query(*run, q)));
    if (maps.back().n_layers != maps[0].n_layers || maps.back().n_kv_heads != maps[0].n_kv_heads)
      refuse("runs of different shapes", "the same number of layers and KV heads");
  }
  MapSpread out{maps[0], maps[0], std::vector<int>(maps[0].values.size())};
  if (runs.size() > 1) out.mean.weights.clear();  // every run counts the same
  out.deviation.weights.clear();
  for (std::size_t i = 0; i < out.n.size(); ++i) {
    double sum = 0, squares = 0;
    for (const HeadMap& map : maps) {
      if (!std::isnan(map.values[i])) sum += map.values[i], ++out.n[i];
    }
    const double m = sum / out.n[i];  // NaN of none
    for (const HeadMap& map : maps) {
      if (!std::isnan(map.values[i])) squares += (map.values[i] - m) * (map.values[i] - m);
    }
    out.mean.values[i] = static_cast<float>(m);
    out.deviation.values[i] = out.n[i] > 1 ? static_cast<float>(std::sqrt(squares / (out.n[i] - 1)))
                                           : std::numeric_limits<float>::quiet_NaN();
  }
  return out;
}

BuiltFigure map_panels_figure(std::span<const RunRecord* const> runs, const MapPanelsOptions& o, const FigureStyle& s) {
  const std::vector<NamedMap> maps = o.panels == MapPanels::spread ? spread_maps(runs, o) : difference_maps(runs, o);
  const HeadMap& first = maps[0].map;
  constexpr double kBarGap = 5;
  const double tick_room = text_width("00", FontRole::text, s.tick_size) + 3 + FigureBuilder::kTickLength;
  const double left = s.label_size + 4 + tick_room;
  FigureBuilder measure(s.width, 0, s);
  double bars = 0;
  for (const NamedMap& m : maps) bars += m.bar_behind ? kBarGap + measure.colour_bar_width(m.scale) : 0;
  const auto n = static_cast<double>(maps.size());
  const double gap = tick_room + 4, width = std::max(20.0, (s.width - left - bars - (n - 1) * gap - 2) / n);
  const double top = s.label_size * 1.5,
               bottom = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  const double natural =
      std::clamp(s.width * 0.75 / first.n_layers, s.tick_size * 0.75,
                 std::max(s.tick_size * 0.75, std::min(width / first.n_kv_heads, s.tick_size * 2.6)));
  // A map of few layers is as high as the words beside its bar.
  double words = 0;
  for (const NamedMap& m : maps) words = std::max(words, text_width(m.scale.label, FontRole::text, s.label_size));
  const double height =
      s.height > 0 ? std::max(20.0, s.height - top - bottom) : std::max(natural * first.n_layers, words);

  FigureBuilder b(s.width, top + height + bottom, s);
  b.label("Layer", {s.label_size / 2 + 1, top + height / 2}, Anchor::middle, 90);
  double x = left;
  for (const NamedMap& m : maps) {
    const Box box{x, top, width, height};
    b.text(m.title, {box.x, box.y - 4}, s.label_size, s.ink, Anchor::start, Baseline::alphabetic, 0, FontRole::bold);
    draw_head_map(b, m.id, box, m.map, m.scale, {.values = o.values, .layer_zero_on_top = o.layer_zero_on_top});
    x += width;
    if (m.bar_behind) {
      b.colour_bar({x + kBarGap, top, 0, height}, m.scale);
      x += kBarGap + b.colour_bar_width(m.scale);
    }
    x += gap;
  }
  b.figure().title = std::string(metric_info(o.metric).title) + " by layer and KV head";
  return {std::move(b.figure()), tidy(maps), describe(runs, maps, o)};
}

}  // namespace kvscope::views
