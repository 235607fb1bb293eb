#include "views/figure/layer_head_map_figure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/core/study/common_oracle.h"
#include "engine/core/study/output_error.h"
#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/token_facts.h"

namespace kvscope::views {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float aggregate(std::vector<float> values, Aggregate how) {
  if (values.empty()) return kNan;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
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

std::string_view name_of(Aggregate how) {
  constexpr std::string_view kNames[] = {"median", "mean", "minimum", "maximum"};
  return kNames[static_cast<int>(how)];
}

std::string cell_text(float v) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", std::abs(v) < 0.005f ? 0.f : v);
  return text[0] == '-' ? "−" + std::string(text + 1) : text;
}

struct NamedMap {
  std::string name;  // "A"; empty for a single map
  HeadMap map;
};

HeadMap difference(const HeadMap& a, const HeadMap& b) {
  HeadMap d = a;
  for (std::size_t i = 0; i < d.values.size(); ++i) d.values[i] = a.values[i] - b.values[i];
  return d;
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

std::vector<NamedMap> maps_to_draw(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& o) {
  if (o.compare == MapCompare::none) return {{"", aggregate_metric(runs, o.metric, o.q, o.aggregate)}};
  if (runs.size() != 2) refuse(std::to_string(runs.size()) + " runs to compare", "exactly two");
  HeadMap a = map_of_pair(runs, 0, o);
  HeadMap b = map_of_pair(runs, 1, o);
  if (a.n_layers != b.n_layers || a.n_kv_heads != b.n_kv_heads)
    refuse("runs of different shapes", "the same layers and heads");
  if (o.compare == MapCompare::difference && tokens_part(*runs[0], *runs[1])) {
    const int common = common_prefix(*runs[0], *runs[1]);
    if (std::max(resolve_query(*runs[0], o.q), resolve_query(*runs[1], o.q)) >= common)
      refuse("a difference of runs whose tokens differ from " + std::to_string(common) + " on",
             "the same tokens up to the query, or side_by_side");
  }
  if (o.compare == MapCompare::difference) return {{"A − B", difference(a, b)}};
  return {{"A", std::move(a)}, {"B", std::move(b)}};
}

ColourScale scale_for(const std::vector<NamedMap>& maps, const LayerHeadMapOptions& o) {
  ColourScale scale{o.colormap, o.lo, o.hi, 0, std::string(metric_info(o.metric).title)};
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  for (const NamedMap& m : maps) {
    for (float v : m.map.values) {
      if (!std::isnan(v)) lo = std::min<double>(lo, v), hi = std::max<double>(hi, v);
    }
  }
  if (o.compare == MapCompare::difference) {
    double reach = o.fit && hi >= lo ? std::max(std::abs(lo), std::abs(hi)) : o.hi - o.lo;
    if (reach <= 0) reach = 1;
    return {Colormap::diverging, -reach, reach, 0, scale.label + ", A − B"};
  }
  if (o.fit && hi > lo) scale.lo = lo, scale.hi = hi;
  return scale;
}

/// Where everything goes; all of it follows from the style, the shape and the colour bar's width.
struct Layout {
  double left, top, map_w, map_h, gap, marginal_w, height;
};

constexpr double kMarginalGap = 6, kBarGap = 9;

Layout lay_out(const FigureStyle& s, int n_maps, int n_layers, int n_heads, double bar_w, bool marginal, bool titled,
               bool preview) {
  Layout l{};
  l.left = s.label_size + 4 + text_width("00", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
  l.top = std::max({s.tick_size * 0.5 + 1, titled ? s.label_size * 1.5 : 0, preview ? s.tick_size * 1.5 + 6 : 0});
  const double bottom = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  l.gap = n_maps > 1 ? l.left - s.label_size + 2 : 0;
  const double available = s.width - l.left - kBarGap - bar_w - 2;
  l.marginal_w = marginal && n_maps == 1 && available > 110 ? std::clamp(available * 0.16, 22.0, 46.0) : 0;
  const double maps_w = available - (l.marginal_w > 0 ? l.marginal_w + kMarginalGap : 0);
  l.map_w = std::max(20.0, (maps_w - (n_maps - 1) * l.gap) / n_maps);
  const double natural =
      std::clamp(s.width * 0.75 / n_layers, s.tick_size * 0.75, std::min(l.map_w / n_heads, s.tick_size * 2.6));
  l.map_h = s.height > 0 ? std::max(20.0, s.height - l.top - bottom) : std::max(natural, 2.0) * n_layers;
  l.height = l.top + l.map_h + bottom;
  return l;
}

void draw_cell_values(FigureBuilder& b, const Box& box, const HeadMap& map, const std::vector<Colour>& pixels,
                      bool flip) {
  const double size = std::min(b.style().tick_size, box.h / map.n_layers * 0.62);
  const double widest = text_width("−0.00", FontRole::text, size);
  if (size < 4.5 || widest + 3 > box.w / map.n_kv_heads) return;
  const Panel panel{"", box, map.n_kv_heads, map.n_layers};
  for (int r = 0; r < map.n_layers; ++r) {
    for (int h = 0; h < map.n_kv_heads; ++h) {
      const float v = map.at(flip ? map.n_layers - 1 - r : r, h);
      const Colour under = pixels[static_cast<std::size_t>(r) * map.n_kv_heads + h];
      const Point at = panel.cell(r, h).centre();
      if (std::isnan(v)) continue;
      b.text(cell_text(v), at, size, ink_on(under), Anchor::middle, Baseline::middle);
    }
  }
}

void draw_map(FigureBuilder& b, const std::string& id, const Box& box, const HeadMap& map, const ColourScale& scale,
              const LayerHeadMapOptions& o) {
  const bool flip = !o.layer_zero_on_top;
  std::vector<Colour> pixels;
  for (int r = 0; r < map.n_layers; ++r) {
    for (int h = 0; h < map.n_kv_heads; ++h) pixels.push_back(scale(map.at(flip ? map.n_layers - 1 - r : r, h)));
  }
  b.heat_map(id, box, map.n_kv_heads, map.n_layers, pixels);
  if (o.values) draw_cell_values(b, box, map, pixels, flip);

  const FigureStyle& s = b.style();
  std::vector<Tick> x, y;
  const double cw = box.w / map.n_kv_heads, ch = box.h / map.n_layers;
  const int x_stride = tick_stride(map.n_kv_heads, cw, text_width("00", FontRole::text, s.tick_size) + 3);
  const int y_stride = tick_stride(map.n_layers, ch, s.tick_size * 1.25);
  for (int h = 0; h < map.n_kv_heads; h += x_stride) x.push_back({box.x + (h + 0.5) * cw, std::to_string(h)});
  for (int l = 0; l < map.n_layers; l += y_stride) {
    y.push_back({box.y + ((flip ? map.n_layers - 1 - l : l) + 0.5) * ch, std::to_string(l)});
  }
  b.x_ticks(box, x);
  b.y_ticks(box, y);
  b.label("KV head",
          {box.centre().x, box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6});
}

/// The mean of each layer as a dot, the range over its heads as a line.
void draw_marginal(FigureBuilder& b, const Box& box, const HeadMap& map, const ColourScale& scale, bool flip) {
  const FigureStyle& s = b.style();
  const auto x_of = [&](double v) {
    return box.x + std::clamp((v - scale.lo) / (scale.hi - scale.lo), 0.0, 1.0) * box.w;
  };
  b.line({box.x, box.bottom()}, {box.right(), box.bottom()}, s.rule, s.rule_width);
  for (double v : {scale.lo, scale.hi}) {
    b.line({x_of(v), box.y}, {x_of(v), box.bottom()}, mix(s.paper, s.rule, 0.4), s.rule_width * 0.8);
    b.line({x_of(v), box.bottom()}, {x_of(v), box.bottom() + FigureBuilder::kTickLength}, s.rule, s.rule_width);
    b.text(format_number(v, 2), {x_of(v), box.bottom() + FigureBuilder::kTickLength + 2}, s.tick_size, s.muted,
           Anchor::middle, Baseline::top);
  }
  b.label("by layer",
          {box.centre().x, box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6});
  const double ch = box.h / map.n_layers, dot = std::clamp(ch * 0.16, 0.9, 1.8);
  for (int r = 0; r < map.n_layers; ++r) {
    std::vector<float> row;
    for (int h = 0; h < map.n_kv_heads; ++h) {
      const float v = map.at(flip ? map.n_layers - 1 - r : r, h);
      if (!std::isnan(v)) row.push_back(v);
    }
    if (row.empty()) continue;
    const double y = box.y + (r + 0.5) * ch, m = x_of(aggregate(row, Aggregate::mean));
    b.line({x_of(aggregate(row, Aggregate::min)), y}, {x_of(aggregate(row, Aggregate::max)), y}, s.muted, 0.7);
    b.add(FillBox{{m - dot, y - dot, 2 * dot, 2 * dot}, s.ink, dot});
  }
}

FigureData tidy(const std::vector<NamedMap>& maps, std::size_t n_runs) {
  std::vector<std::string> run;
  std::vector<std::int64_t> layer, head, n;
  std::vector<double> value;
  for (const NamedMap& m : maps) {
    for (int l = 0; l < m.map.n_layers; ++l) {
      for (int h = 0; h < m.map.n_kv_heads; ++h) {
        run.push_back(m.name.empty() ? "all" : m.name == "A − B" ? "A-B" : m.name);
        layer.push_back(l), head.push_back(h);
        value.push_back(m.map.at(l, h));
        n.push_back(m.name.empty() ? static_cast<std::int64_t>(n_runs) : 1);
      }
    }
  }
  return {{{"run", run}, {"layer", layer}, {"kv_head", head}, {"value", value}, {"n", n}}};
}

std::string describe(std::span<const RunRecord* const> runs, const std::vector<NamedMap>& maps,
                     const LayerHeadMapOptions& o) {
  const MetricInfo& info = metric_info(o.metric);
  std::string text = std::string(info.title) + " of each layer and KV head";
  text += o.q < 0 ? " at the last query position" : " at query position " + std::to_string(o.q);
  if (o.compare == MapCompare::difference) text += ", A minus B";
  if (o.compare == MapCompare::none && runs.size() > 1) {
    text += ", " + std::string(name_of(o.aggregate)) + " of " + std::to_string(runs.size()) + " runs";
  }
  text += ". Definition: " + std::string(info.definition) + ". ";
  if (o.compare == MapCompare::none) {
    text += describe_run(*runs[0]);
    text += " Mean over heads " + format_number(mean(maps[0].map)) + ".";
  } else {
    text += "A: " + describe_run(*runs[0]) + " B: " + describe_run(*runs[1]);
  }
  if (o.metric == Metric::output_error) text += " " + output_error_note(*runs[0], resolve_query(*runs[0], o.q));
  if (const std::string note = common_oracle_note(runs, o); !note.empty()) text += " Both by one " + note + ".";
  if (info.needs_oracle) {
    for (const RunRecord* run : runs) {
      if (run->oracle_horizon >= run->n_tokens()) continue;
      text += " The oracle has seen " + std::to_string(run->oracle_horizon) + " of " + std::to_string(run->n_tokens()) +
              " queries: values so far.";
      break;
    }
  }
  return text + " Hatched: no value." + describe_preview(o.preview || o.preview_b);
}

}  // namespace

const MetricInfo& metric_info(Metric metric) { return *std::ranges::find(metric_list(), metric, &MetricInfo::metric); }

std::string common_oracle_note(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& o) {
  if (!has_common_oracle(o) || runs.size() != 2) return {};
  const auto common = CommonOracle::of(*runs[0], *runs[1]);
  return common ? common->note(*runs[0], *runs[1], resolve_query(*runs[0], o.q)) : std::string();
}

HeadMap aggregate_metric(std::span<const RunRecord* const> runs, Metric metric, std::int32_t q, Aggregate how) {
  if (runs.empty()) refuse("no run", "at least one");
  std::vector<HeadMap> maps;
  for (const RunRecord* run : runs) {
    maps.push_back(head_metric(*run, metric, resolve_query(*run, q)));
    if (maps.back().n_layers != maps[0].n_layers || maps.back().n_kv_heads != maps[0].n_kv_heads) {
      refuse("runs of different shapes", "the same number of layers and KV heads");
    }
  }
  HeadMap result = maps[0];
  for (std::size_t i = 0; i < result.values.size() && maps.size() > 1; ++i) {
    std::vector<float> values;
    for (const HeadMap& m : maps) {
      if (!std::isnan(m.values[i])) values.push_back(m.values[i]);
    }
    result.values[i] = aggregate(std::move(values), how);
  }
  return result;
}

BuiltFigure layer_head_map_figure(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& o,
                                  const FigureStyle& style) {
  const std::vector<NamedMap> maps = maps_to_draw(runs, o);
  const HeadMap& first = maps[0].map;
  const ColourScale scale = scale_for(maps, o);
  const bool titled = maps.size() > 1;
  const double bar_w = FigureBuilder(style.width, 0, style).colour_bar_width(scale);
  const Layout l = lay_out(style, static_cast<int>(maps.size()), first.n_layers, first.n_kv_heads, bar_w, o.marginal,
                           titled, o.preview);

  FigureBuilder b(style.width, l.height, style);
  double x = l.left;
  double badge_right = 0;
  b.label("Layer", {style.label_size / 2 + 1, l.top + l.map_h / 2}, Anchor::middle, 90);
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const Box box{x, l.top, l.map_w, l.map_h};
    if (titled)
      b.text(i == 0 ? o.name_a : o.name_b, {box.x, box.y - 4}, style.label_size, style.ink, Anchor::start,
             Baseline::alphabetic, 0, FontRole::bold);
    draw_map(b, i == 0 ? "map" : "map.b", box, maps[i].map, scale, o);
    const bool preview = i == 1 ? o.preview_b : o.preview || (o.compare == MapCompare::difference && o.preview_b);
    if (preview) {
      b.preview_frame(box);
      badge_right = box.right() + 2;
    }
    x += l.map_w + l.gap;
  }
  x -= l.gap;
  if (badge_right > 0) b.preview_badge(badge_right, l.top - 4);
  if (l.marginal_w > 0) {
    draw_marginal(b, {x + kMarginalGap, l.top, l.marginal_w, l.map_h}, first, scale, !o.layer_zero_on_top);
    x += kMarginalGap + l.marginal_w;
  }
  b.colour_bar({x + kBarGap, l.top, 0, l.map_h}, scale);
  b.figure().title = std::string(metric_info(o.metric).title) + " by layer and KV head";
  return {std::move(b.figure()), tidy(maps, runs.size()), describe(runs, maps, o)};
}

}  // namespace kvscope::views
