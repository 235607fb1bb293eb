#include "views/figure/layer_head_map_figure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/study/compare_runs.h"
#include "engine/core/study/output_error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/head_map_panel.h"
#include "views/figure/token_facts.h"

namespace kvscope::views {
namespace {

/// What is drawn of one run: values, and the head at each place.
struct Drawn {
  const HeadMap* map;
  const std::vector<int>* order;
  MapScale scale;
  const LayerHeadMapOptions* o;

  int n_layers() const { return map->n_layers; }
  int n_heads() const { return map->n_kv_heads; }
  int layer(int row) const { return o->layer_zero_on_top ? row : n_layers() - 1 - row; }
  int head(int row, int place) const {
    return (*order)[static_cast<std::size_t>(layer(row)) * static_cast<std::size_t>(n_heads()) +
                    static_cast<std::size_t>(place)];
  }
  float value(int row, int place) const { return map->at(layer(row), head(row, place)); }
};

ColourScale colours(const MapScale& scale, const LayerHeadMapOptions& o) {
  const bool is_difference = o.compare == MapCompare::difference;
  std::string label(metric_info(o.metric).title);
  if (is_difference) label += ", B − A";
  if (o.aggregate == Aggregate::iqr && !is_difference) label += ", spread over runs";
  if (o.by_layer) label += " / largest of layer";
  return {is_difference ? Colormap::diverging : o.colormap, scale.lo, scale.hi, 0, label};
}

ColourScale axis_of(const MapScale& scale, const LayerHeadMapOptions& o) {
  ColourScale axis = colours(scale, o);
  axis.lo = scale.axis_lo, axis.hi = scale.axis_hi;
  return axis;
}

/// Where everything goes; all of it follows from the style, the shape and the colour bars' width.
struct Layout {
  double left, top, map_w, map_h, gap, marginal_w, height;
};
struct Content {
  int n_maps, n_layers, n_heads, n_bars;
  double bar_w;  // histogram included
  bool marginal, preview;
};

constexpr double kMarginalGap = 6, kBarGap = 9;

double histogram_width(const FigureStyle& s, const LayerHeadMapOptions& o) {
  return o.histogram ? 2.4 * s.tick_size : 0;
}

double caption_height(const FigureStyle& s, int n_maps) { return n_maps > 1 ? s.label_size * 1.5 : 0; }

Layout lay_out(const FigureStyle& s, const Content& c) {
  Layout l{};
  l.left = s.label_size + 4 + text_width("00", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
  l.top = std::max(s.tick_size * 0.5 + 1, caption_height(s, c.n_maps) + (c.preview ? s.tick_size * 1.5 + 6 : 0));
  const double bottom = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  l.gap = c.n_maps > 1 ? l.left - s.label_size + 2 : 0;
  const double available = s.width - l.left - c.n_bars * (kBarGap + c.bar_w) - 2;
  l.marginal_w = c.marginal && c.n_maps == 1 && available > 110 ? std::clamp(available * 0.16, 22.0, 46.0) : 0;
  const double maps_w = available - (l.marginal_w > 0 ? l.marginal_w + kMarginalGap : 0);
  l.map_w = std::max(20.0, (maps_w - (c.n_maps - 1) * l.gap) / c.n_maps);
  const double natural =
      std::clamp(s.width * 0.75 / c.n_layers, s.tick_size * 0.75, std::min(l.map_w / c.n_heads, s.tick_size * 2.6));
  l.map_h = s.height > 0 ? std::max(20.0, s.height - l.top - bottom) : std::max(natural, 2.0) * c.n_layers;
  l.height = l.top + l.map_h + bottom;
  return l;
}

/// Both ends of the axis where there is room for two numbers, else its zero or its upper end: the colour bar has them all.
void draw_marginal_numbers(FigureBuilder& b, const Box& box, const MapScale& scale) {
  const FigureStyle& s = b.style();
  const double y = box.bottom() + FigureBuilder::kTickLength + 2;
  const auto number = [&](const std::string& text, double x, Anchor anchor) {
    b.text(text, {x, y}, s.tick_size, s.muted, anchor, Baseline::top);
  };
  const std::string lo = format_number(scale.axis_lo, 2), hi = format_number(scale.axis_hi, 2);
  const auto width = [&](const std::string& text) { return text_width(text, FontRole::text, s.tick_size); };
  if (width(lo) + s.tick_size + width(hi) <= box.w) {
    number(lo, box.x, Anchor::start);
    number(hi, box.right(), Anchor::end);
  } else if (scale.axis_lo < 0 && scale.axis_hi > 0) {
    number("0", box.x - scale.axis_lo / (scale.axis_hi - scale.axis_lo) * box.w, Anchor::middle);
  } else {
    number(hi, box.right(), Anchor::end);
  }
}

/// The mean of each layer as a dot, the range over its heads as a line.
void draw_marginal(FigureBuilder& b, const Box& box, const Drawn& drawn) {
  const FigureStyle& s = b.style();
  const MapScale& scale = drawn.scale;
  const auto x_of = [&](double v) {
    return box.x + std::clamp((v - scale.axis_lo) / (scale.axis_hi - scale.axis_lo), 0.0, 1.0) * box.w;
  };
  b.line({box.x, box.bottom()}, {box.right(), box.bottom()}, s.rule, s.rule_width);
  for (double v : {scale.axis_lo, scale.axis_hi}) {
    b.line({x_of(v), box.y}, {x_of(v), box.bottom()}, mix(s.paper, s.rule, 0.4), s.rule_width * 0.8);
    b.line({x_of(v), box.bottom()}, {x_of(v), box.bottom() + FigureBuilder::kTickLength}, s.rule, s.rule_width);
  }
  draw_marginal_numbers(b, box, scale);
  b.label("by layer",
          {box.centre().x, box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6});
  const double ch = box.h / drawn.n_layers(), dot = std::clamp(ch * 0.16, 0.9, 1.8);
  for (int r = 0; r < drawn.n_layers(); ++r) {
    std::vector<float> row;
    for (int h = 0; h < drawn.n_heads(); ++h) {
      if (const float v = drawn.value(r, h); !std::isnan(v)) row.push_back(v);
    }
    if (row.empty()) continue;
    std::ranges::sort(row);
    const float mean_of_row =
        static_cast<float>(std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size()));
    const double y = box.y + (r + 0.5) * ch, m = x_of(mean_of_row);
    b.line({x_of(row.front()), y}, {x_of(row.back()), y}, s.muted, 0.7);
    b.add(FillBox{{m - dot, y - dot, 2 * dot, 2 * dot}, s.ink, dot});
  }
}

/// Bar, ticks and, at its left, how many heads have which value; the longest of these is as long as there is room.
void draw_bar(FigureBuilder& b, const std::string& id, Box bar, std::span<const HeadMap> maps, const Drawn& drawn) {
  const FigureStyle& s = b.style();
  const LayerHeadMapOptions& o = *drawn.o;
  const ColourScale axis = axis_of(drawn.scale, o), colour = colours(drawn.scale, o);
  const double room = histogram_width(s, o);
  if (o.histogram) {
    const std::vector<int> bins = value_histogram(maps, axis.lo, axis.hi);
    const double most = std::max(1, *std::ranges::max_element(bins)), h = bar.h / kHistogramBins;
    for (int i = 0; i < kHistogramBins; ++i) {
      if (bins[static_cast<std::size_t>(i)] == 0) continue;
      const double w = std::max(0.8, (room - 2) * bins[static_cast<std::size_t>(i)] / most);
      b.add(FillBox{{bar.x + room - 1 - w, bar.bottom() - (i + 1) * h + 0.2, w, h - 0.4}, mix(s.paper, s.muted, 0.7)});
    }
  }
  bar.x += room;
  if (o.clip.on || o.clip_b.on) {
    b.colour_bar(bar, axis, [&](double v) { return colour(v); });
  } else {
    b.colour_bar(bar, axis);
  }
  b.figure().panels.push_back({id, {bar.x, bar.y, s.tick_size, bar.h}, 0, 0});
}

FigureData tidy(const LayerHeadMaps& maps, const std::vector<HeadMap>& drawn, const std::vector<int>& order,
                std::size_t n_runs, const LayerHeadMapOptions& o) {
  std::vector<std::string> run;
  std::vector<std::int64_t> layer, head, n, place, marked;
  std::vector<double> value, shown;
  for (std::size_t i = 0; i < maps.parts.size(); ++i) {
    const LayerHeadMaps::Part& m = maps.parts[i];
    for (int l = 0; l < m.map.n_layers; ++l) {
      const auto row = order.begin() + static_cast<std::ptrdiff_t>(l) * m.map.n_kv_heads;
      for (int h = 0; h < m.map.n_kv_heads; ++h) {
        run.push_back(m.name.empty() ? "all" : m.name == "B − A" ? "B-A" : m.name);
        layer.push_back(l), head.push_back(h);
        value.push_back(m.map.at(l, h));
        n.push_back(m.name.empty() ? static_cast<std::int64_t>(n_runs) : 1);
        place.push_back(std::find(row, row + m.map.n_kv_heads, h) - row);
        shown.push_back(drawn[i].at(l, h));
        marked.push_back(o.heads.contains({l, h}));
      }
    }
  }
  FigureData data{{{"run", run}, {"layer", layer}, {"kv_head", head}, {"value", value}, {"n", n}}};
  if (o.sort) data.columns.push_back({"place", place});
  if (o.by_layer) data.columns.push_back({"drawn", shown});
  if (!o.heads.empty()) data.columns.push_back({"marked", marked});
  return data;
}

/// What of the picture is not the metric itself: order, division, marks, where the colours end.
std::string describe_look(const LayerHeadMaps& maps, const std::vector<MapScale>& scales,
                          const LayerHeadMapOptions& o) {
  std::string text;
  if (o.sort)
    text +=
        std::string(" Heads of each layer by value, the greatest first") + (maps.parts.size() > 1 ? ", in A." : ".");
  if (o.by_layer) text += " Each layer divided by its largest absolute value.";
  if (scales.size() > 1) text += " A and B by a scale of its own each.";
  const HeadMap& first = maps.parts[0].map;
  if (const int n = o.heads.within(first.n_layers, first.n_kv_heads).size(); n > 0 || o.board) {
    const std::string count = std::to_string(n) + " of " + std::to_string(first.n_layers * first.n_kv_heads) + " heads";
    text += o.board ? " Outlined: " + count + " that are global; hatched: local ones; grey: no value."
                    : " Outlined: " + count + ".";
  }
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (scales[i].lo == scales[i].axis_lo && scales[i].hi == scales[i].axis_hi) continue;
    text += " Colours" + (scales.size() > 1 ? " of " + maps.parts[i].name : std::string()) + " go from " +
            format_number(scales[i].lo) + " to " + format_number(scales[i].hi) + ".";
  }
  return text;
}

std::string describe(std::span<const RunRecord* const> runs, const LayerHeadMaps& maps,
                     const std::vector<MapScale>& scales, const LayerHeadMapOptions& o) {
  const MetricInfo& info = metric_info(o.metric);
  std::string text = std::string(info.title) + " of each layer and KV head";
  text += o.q < 0 ? " at the last query position" : " at query position " + std::to_string(o.q);
  if (o.compare == MapCompare::difference) text += ", B minus A";
  if (o.compare == MapCompare::none && runs.size() > 1) {
    text += ", " + describe_aggregate(o.aggregate, runs.size());
  }
  text += ". Definition: " + std::string(info.definition) + ". ";
  if (o.compare == MapCompare::none) {
    text += describe_run(*runs[0]);
    text += " Mean over heads " + format_number(mean(maps.parts[0].map)) + ".";
  } else {
    text += "A: " + describe_run(*runs[0]) + " B: " + describe_run(*runs[1]);
  }
  if (o.metric == Metric::output_error) text += " " + output_error_note(*runs[0], resolve_query(*runs[0], o.q));
  if (!maps.common_oracle.empty()) text += " Both by one " + maps.common_oracle + ".";
  if (o.compare != MapCompare::none && tokens_part(*runs[0], *runs[1])) {
    const int common = common_prefix(*runs[0], *runs[1]);
    if (resolve_query(*runs[0], o.q) >= common)
      text += " Their tokens part at " + std::to_string(common) + ": each map is of its run's own text" +
              (info.needs_oracle ? ", by its own oracle." : ".");
  }
  if (info.needs_oracle) {
    for (const RunRecord* run : runs) {
      if (run->oracle_horizon >= run->n_tokens()) continue;
      text += " The oracle has seen " + std::to_string(run->oracle_horizon) + " of " + std::to_string(run->n_tokens()) +
              " queries: values so far.";
      break;
    }
  }
  return text + describe_look(maps, scales, o) + (o.board ? "" : " Hatched: no value.") +
         describe_preview(o.preview || o.preview_b);
}

}  // namespace

BuiltFigure layer_head_map_figure(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& o,
                                  const FigureStyle& style) {
  return layer_head_map_figure(layer_head_maps(runs, o), runs, o, style);
}

BuiltFigure layer_head_map_figure(const LayerHeadMaps& maps, std::span<const RunRecord* const> runs,
                                  const LayerHeadMapOptions& o, const FigureStyle& style) {
  const std::vector<HeadMap> values = drawn_values(maps, o);
  const std::vector<int> order = head_order(values[0], o.sort);
  const bool own_bars = values.size() > 1 && !o.lock;
  std::vector<MapScale> scales;
  for (std::size_t i = 0; i < (own_bars ? values.size() : 1); ++i) scales.push_back(map_scale(values, i, o));
  double bar_w = 0;
  for (const MapScale& scale : scales)
    bar_w = std::max(bar_w, FigureBuilder(style.width, 0, style).colour_bar_width(axis_of(scale, o)));
  bar_w += histogram_width(style, o);
  const Layout l = lay_out(style, {static_cast<int>(values.size()), values[0].n_layers, values[0].n_kv_heads,
                                   static_cast<int>(scales.size()), bar_w, o.marginal, o.preview || o.preview_b});

  FigureBuilder b(style.width, l.height, style);
  double x = l.left;
  const double pitch =
      l.map_w + (l.marginal_w > 0 ? kMarginalGap + l.marginal_w : 0) + (own_bars ? kBarGap + bar_w : 0) + l.gap;
  double badge_right = 0;
  b.label("Layer", {style.label_size / 2 + 1, l.top + l.map_h / 2}, Anchor::middle, 90);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Box box{x, l.top, l.map_w, l.map_h};
    const Drawn drawn{&values[i], &order, scales[own_bars ? i : 0], &o};
    const bool last = i + 1 == values.size();
    if (values.size() > 1)
      b.text(shortened(i == 0 ? o.name_a : o.name_b, FontRole::bold, style.label_size,
                       !last            ? pitch - 4
                       : scales.empty() ? style.width - box.x
                                        : l.map_w + kBarGap - 2),  // beside it are a thumb and a number of the bar
             {box.x, box.y - 4}, style.label_size, style.ink, Anchor::start, Baseline::alphabetic, 0, FontRole::bold);
    draw_head_map(b, i == 0 ? "map" : "map.b", box, values[i], colours(drawn.scale, o),
                  {.values = o.values,
                   .layer_zero_on_top = o.layer_zero_on_top,
                   .order = o.sort ? &order : nullptr,
                   .marked = o.heads.empty() && !o.board ? nullptr : &o.heads,
                   .board = o.board});
    const bool preview = i == 1 ? o.preview_b : o.preview || (o.compare == MapCompare::difference && o.preview_b);
    if (preview) {
      b.preview_frame(box);
      badge_right = box.right() + 2;
    }
    x += l.map_w;
    if (l.marginal_w > 0) {
      draw_marginal(b, {x + kMarginalGap, l.top, l.marginal_w, l.map_h}, drawn);
      x += kMarginalGap + l.marginal_w;
    }
    if (own_bars || last)
      draw_bar(b, i == 1 && own_bars ? "bar.b" : "bar", {x + kBarGap, l.top, 0, l.map_h},
               own_bars ? std::span(values).subspan(i, 1) : std::span(values), drawn);
    if (own_bars) x += kBarGap + bar_w;
    x += l.gap;
  }
  if (badge_right > 0) b.preview_badge(badge_right, l.top - 4 - caption_height(style, static_cast<int>(values.size())));
  b.figure().title = std::string(metric_info(o.metric).title) + " by layer and KV head";
  return {std::move(b.figure()), tidy(maps, values, order, runs.size(), o), describe(runs, maps, scales, o)};
}

}  // namespace kvscope::views
