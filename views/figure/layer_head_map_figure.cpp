#include "views/figure/layer_head_map_figure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/study/measure/output_error.h"
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
  return {o.compare == MapCompare::difference ? Colormap::diverging : o.colormap, scale.lo, scale.hi, 0,
          colour_bar_title(o)};
}

ColourScale axis_of(const MapScale& scale, const LayerHeadMapOptions& o) {
  ColourScale axis = colours(scale, o);
  axis.lo = scale.axis_lo, axis.hi = scale.axis_hi;
  return axis;
}

/// Where everything goes; all of it follows from the style, the shape and the colour bars' width.
struct Layout {
  double left, top, map_w, map_h, gap, marginal_w, bar_w, height;
  bool heads_title;  // there is height for it
};
struct Content {
  int n_maps, n_layers, n_heads;
  std::span<const MapScale> scales;  // a bar each
};
/// What goes, in this order, before the maps are slivers: the metric's name stands above them as well, and B's layers are A's.
struct Extras {
  bool bar_title = true, histogram = true, layers_of_b = true, layer_title = true;
};
constexpr bool Extras::*kInOrder[] = {&Extras::bar_title, &Extras::histogram, &Extras::layers_of_b,
                                      &Extras::layer_title};

constexpr double kMarginalGap = 6, kBarGap = 9;
// Of a map that has all of them beside it, and its heads' title below, in sizes of a tick's number.
constexpr double kLeastMap = 9, kLeastHeight = 7;
constexpr std::string_view kByLayer = "by layer";

double histogram_width(const FigureStyle& s, const LayerHeadMapOptions& o, const Extras& extras) {
  return o.histogram && extras.histogram ? 2.4 * s.tick_size : 0;
}

double caption_height(const FigureStyle& s, int n_maps) { return n_maps > 1 ? s.label_size * 1.5 : 0; }

/// Histogram included.
double bar_width(const FigureStyle& s, const Content& c, const LayerHeadMapOptions& o, const Extras& extras,
                 double height) {
  double width = 0;
  for (const MapScale& scale : c.scales) {
    ColourScale axis = axis_of(scale, o);
    if (!extras.bar_title) axis.label.clear();
    width = std::max(width, FigureBuilder(s.width, 0, s).colour_bar_width(axis, height));
  }
  return width + histogram_width(s, o, extras);
}

/// `bar_h`: the bars' height, as far as it is known.
Layout lay_out_for(const FigureStyle& s, const Content& c, const LayerHeadMapOptions& o, const Extras& extras,
                   double bar_h) {
  Layout l{};
  l.bar_w = bar_width(s, c, o, extras, bar_h);
  const double title = extras.layer_title ? s.label_size + 4 : 0;
  const double numbers = text_width("00", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
  l.left = title + numbers;
  const bool preview = o.preview || o.preview_b;
  l.top = std::max(s.tick_size * 0.5 + 1, caption_height(s, c.n_maps) + (preview ? s.tick_size * 1.5 + 6 : 0));
  double bottom = FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
  l.heads_title = s.height <= 0 || s.height - l.top - bottom >= kLeastHeight * s.tick_size;
  if (!l.heads_title) bottom -= s.label_size * 1.3 - 2;
  if (c.n_maps > 1) l.gap = extras.layers_of_b ? numbers + 6 : s.tick_size * 0.8;
  const double available = s.width - l.left - static_cast<double>(c.scales.size()) * (kBarGap + l.bar_w) - 2;
  l.marginal_w = o.marginal && c.n_maps == 1 && available > 110 ? std::clamp(available * 0.16, 22.0, 46.0) : 0;
  const double maps_w = available - (l.marginal_w > 0 ? l.marginal_w + kMarginalGap : 0);
  l.map_w = std::max(20.0, (maps_w - (c.n_maps - 1) * l.gap) / c.n_maps);
  const double natural =
      std::clamp(s.width * 0.75 / c.n_layers, s.tick_size * 0.75, std::min(l.map_w / c.n_heads, s.tick_size * 2.6));
  l.map_h = s.height > 0 ? std::max(20.0, s.height - l.top - bottom) : std::max(natural, 2.0) * c.n_layers;
  l.height = l.top + l.map_h + bottom;
  return l;
}

Layout lay_out(const FigureStyle& s, const Content& c, const LayerHeadMapOptions& o, const Extras& extras) {
  return lay_out_for(s, c, o, extras, lay_out_for(s, c, o, extras, 100).map_h);
}

/// Of the map's title, whose middle is the map's, beside "by layer" under the means; 0 where one of the two has to go.
double room_beside_marginal(const FigureStyle& s, const Layout& l) {
  const double word = text_width(kByLayer, FontRole::text, s.label_size);
  return 2 * (l.map_w / 2 + kMarginalGap + l.marginal_w / 2 - word / 2 - 4);
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
void draw_marginal(FigureBuilder& b, const Box& box, const Drawn& drawn, bool titled) {
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
  if (titled)
    b.label(std::string(kByLayer),
            {box.centre().x, box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6});
  const double ch = box.h / drawn.n_layers(), dot = std::clamp(ch * 0.16, 0.9, 1.8);
  for (int r = 0; r < drawn.n_layers(); ++r) {
    std::vector<std::pair<float, double>> row;  // value, weight
    for (int h = 0; h < drawn.n_heads(); ++h) {
      const auto at = static_cast<std::size_t>(drawn.layer(r) * drawn.n_heads() + drawn.head(r, h));
      if (const float v = drawn.value(r, h); !std::isnan(v)) row.emplace_back(v, drawn.map->weight(at));
    }
    if (row.empty()) continue;
    std::ranges::sort(row);
    double sum = 0, weight = 0;
    for (const auto& [v, w] : row) sum += w * v, weight += w;
    const double y = box.y + (r + 0.5) * ch, m = x_of(static_cast<float>(sum / weight));
    b.line({x_of(row.front().first), y}, {x_of(row.back().first), y}, s.muted, 0.7);
    b.add(FillBox{{m - dot, y - dot, 2 * dot, 2 * dot}, s.ink, dot});
  }
}

/// As much of the bar's title as stands beside it inside the figure, which may be the bar of a few layers alone.
std::string title_in(const FigureStyle& s, const std::string& title, double room) {
  constexpr double kWorth = 4;  // sizes; less than that is a letter and dots
  if (text_width(title, FontRole::text, s.label_size) <= room) return title;
  return room < kWorth * s.label_size ? "" : shortened(title, FontRole::text, s.label_size, room);
}

/// Bar, ticks and, at its left, how many heads have which value; the longest of these is as long as there is room.
void draw_bar(FigureBuilder& b, const std::string& id, Box bar, std::span<const HeadMap> maps, const Drawn& drawn,
              const Extras& extras) {
  const FigureStyle& s = b.style();
  const LayerHeadMapOptions& o = *drawn.o;
  ColourScale axis = axis_of(drawn.scale, o);
  const ColourScale colour = colours(drawn.scale, o);
  const double room = histogram_width(s, o, extras);
  if (room > 0) {
    const std::vector<int> bins = value_histogram(maps, axis.lo, axis.hi);
    const double most = std::max(1, *std::ranges::max_element(bins)), h = bar.h / kHistogramBins;
    for (int i = 0; i < kHistogramBins; ++i) {
      if (bins[static_cast<std::size_t>(i)] == 0) continue;
      const double w = std::max(0.8, (room - 2) * bins[static_cast<std::size_t>(i)] / most);
      b.add(FillBox{{bar.x + room - 1 - w, bar.bottom() - (i + 1) * h + 0.2, w, h - 0.4}, mix(s.paper, s.muted, 0.7)});
    }
  }
  bar.x += room;
  const double middle = bar.centre().y,
               above = o.preview || o.preview_b ? middle - bar.y : middle;  // the badge is there
  axis.label = extras.bar_title ? title_in(s, axis.label, 2 * std::min(above, b.figure().height - middle)) : "";
  if (o.clip.on || o.clip_b.on) {
    b.colour_bar(bar, axis, [&](double v) { return colour(v); });
  } else {
    b.colour_bar(bar, axis);
  }
  b.figure().panels.push_back({id, {bar.x, bar.y, s.tick_size, bar.h}, 0, 0});
}

/// Below two maps that are `width` wide together.
void draw_shared_title(FigureBuilder& b, const Layout& l, double width, const LayerHeadMapOptions& o) {
  const FigureStyle& s = b.style();
  b.label(
      std::string(head_axis_title(s, o.sort, width, width)),
      {l.left + width / 2, l.top + l.map_h + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6});
}

FigureData tidy(const LayerHeadMaps& maps, const std::vector<HeadMap>& drawn, const std::vector<int>& order,
                std::size_t n_runs, const LayerHeadMapOptions& o) {
  const std::vector<int>& counts = maps.counts.of_head;
  std::vector<std::string> run;
  std::vector<std::int64_t> layer, head, n, place, marked;
  std::vector<double> value, shown, weight;  // of a value in the mean over heads
  for (std::size_t i = 0; i < maps.parts.size(); ++i) {
    const LayerHeadMaps::Part& m = maps.parts[i];
    for (int l = 0; l < m.map.n_layers; ++l) {
      const auto row = order.begin() + static_cast<std::ptrdiff_t>(l) * m.map.n_kv_heads;
      for (int h = 0; h < m.map.n_kv_heads; ++h) {
        run.push_back(m.name.empty() ? "all" : m.name == "B − A" ? "B-A" : m.name);
        layer.push_back(l), head.push_back(h);
        value.push_back(m.map.at(l, h));
        weight.push_back(m.map.weight(static_cast<std::size_t>(l * m.map.n_kv_heads + h)));
        n.push_back(n_runs == 1 || !m.name.empty() ? 1
                    : counts.empty()               ? static_cast<std::int64_t>(n_runs)
                                                   : counts[static_cast<std::size_t>(l * m.map.n_kv_heads + h)]);
        place.push_back(std::find(row, row + m.map.n_kv_heads, h) - row);
        shown.push_back(drawn[i].at(l, h));
        marked.push_back(o.heads.contains({l, h}));
      }
    }
  }
  FigureData data{{{"run", run}, {"layer", layer}, {"kv_head", head}, {"value", value}, {"n", n}}};
  if (std::ranges::any_of(weight, [](double w) { return w != 1; })) data.columns.push_back({"weight", weight});
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
    text += std::string(" Heads of each layer sorted by value, largest first") +
            (maps.parts.size() > 1 ? " (A's values)." : ".");
  if (o.by_layer) text += " Each layer divided by its largest absolute value.";
  if (scales.size() > 1) text += " A and B have separate scales.";
  const HeadMap& first = maps.parts[0].map;
  if (const int n = o.heads.within(first.n_layers, first.n_kv_heads).size(); n > 0 || o.board) {
    const std::string count = std::to_string(n) + " of " + std::to_string(first.n_layers * first.n_kv_heads) + " heads";
    text +=
        o.board ? " Outlined: " + count + " (global); hatched: local; grey: no value." : " Outlined: " + count + ".";
  }
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (scales[i].lo == scales[i].axis_lo && scales[i].hi == scales[i].axis_hi) continue;
    text += " Colours" + (scales.size() > 1 ? " of " + maps.parts[i].name : std::string()) + " go from " +
            format_number(scales[i].lo) + " to " + format_number(scales[i].hi) + ".";
  }
  return text;
}

/// Over how many queries the means go, of each run that a map is of.
std::string output_error_notes(std::span<const RunRecord* const> runs, const LayerHeadMapOptions& o) {
  const auto note = [&](const RunRecord& run) { return output_error_note(run, resolve_query(run, o.q)); };
  if (o.compare != MapCompare::none) return " A: " + note(*runs[0]) + " B: " + note(*runs[1]);
  return (runs.size() > 1 ? " The first: " : " ") + note(*runs[0]);
}

std::string describe(std::span<const RunRecord* const> runs, const LayerHeadMaps& maps,
                     const std::vector<MapScale>& scales, const LayerHeadMapOptions& o) {
  const MetricInfo& info = metric_info(o.metric);
  std::string text = std::string(info.title) + " of each layer and KV head";
  text += o.q < 0 ? " at the last query position" : " at query position " + std::to_string(o.q);
  if (o.compare == MapCompare::difference) text += ", B minus A";
  if (o.compare == MapCompare::none && runs.size() > 1) {
    text += ", " + describe_aggregate(o.aggregate, maps.counts, "");
  }
  text += ". Definition: " + std::string(info.definition) + ". ";
  if (o.compare == MapCompare::none) {
    text += describe_runs(runs);
    text += (maps.parts[0].map.weights.empty() ? " Mean over heads " : " Mean over heads and queries ") +
            format_number(mean(maps.parts[0].map)) + ".";
  } else {
    text += "A: " + describe_run(*runs[0]) + " B: " + describe_run(*runs[1]);
  }
  if (o.metric == Metric::output_error) text += output_error_notes(runs, o);
  text += maps.common_oracle.empty() ? maps.own_oracle : " A and B are judged by one " + maps.common_oracle + ".";
  if (o.compare != MapCompare::none) text += describe_ended(runs.first(2), o.q);
  if (o.compare != MapCompare::none && tokens_part(*runs[0], *runs[1])) {
    const int common = common_prefix(*runs[0], *runs[1]);
    if (resolve_query(*runs[0], o.q) >= common)
      text += " Their tokens diverge at " + std::to_string(common) + ": each map uses its own run's text" +
              (info.needs_oracle ? " and oracle." : ".");
  }
  if (info.needs_oracle) {
    for (const RunRecord* run : runs) {
      if (run->oracle_horizon >= run->n_tokens()) continue;
      text += " The oracle has seen " + std::to_string(run->oracle_horizon) + " of " + std::to_string(run->n_tokens()) +
              " queries: values are partial.";
      break;
    }
  }
  return text + describe_look(maps, scales, o) + (o.board ? "" : std::string(hatch_note(drawn_values(maps, o)))) +
         describe_preview(o.preview || o.preview_b);
}

}  // namespace

std::string colour_bar_title(const LayerHeadMapOptions& o) {
  const bool is_difference = o.compare == MapCompare::difference;
  std::string title(metric_info(o.metric).title);
  if (is_difference) title += ", B − A";
  if (o.aggregate == Aggregate::iqr && !is_difference) title += ", spread over runs";
  if (o.by_layer) title += " / layer maximum";
  return title;
}

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
  const Content content{static_cast<int>(values.size()), values[0].n_layers, values[0].n_kv_heads, scales};
  Extras extras;
  Layout l = lay_out(style, content, o, extras);
  for (const auto extra : kInOrder) {
    if (l.map_w >= kLeastMap * style.tick_size) break;
    extras.*extra = false;
    l = lay_out(style, content, o, extras);
  }

  FigureBuilder b(style.width, l.height, style);
  double x = l.left;
  const double pitch =
      l.map_w + (l.marginal_w > 0 ? kMarginalGap + l.marginal_w : 0) + (own_bars ? kBarGap + l.bar_w : 0) + l.gap;
  double badge_right = 0;
  if (extras.layer_title) b.label("Layer", {style.label_size / 2 + 1, l.top + l.map_h / 2}, Anchor::middle, 90);
  // Two titles that would touch are one, under both; that of the means goes before the map's.
  const double beside = values.size() > 1  ? pitch - 4
                        : l.marginal_w > 0 ? room_beside_marginal(style, l)
                                           : std::numeric_limits<double>::infinity();
  const bool each = !head_axis_title(style, o.sort, l.map_w, beside).empty();
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
    HeadMapLook look{.values = o.values,
                     .layer_zero_on_top = o.layer_zero_on_top,
                     .order = o.sort ? &order : nullptr,
                     .marked = o.heads.empty() && !o.board ? nullptr : &o.heads,
                     .board = o.board,
                     .layer_numbers = i == 0 || extras.layers_of_b};
    if (each) look.title_room = beside;
    if (!l.heads_title || (!each && values.size() > 1)) look.title_room = 0;
    draw_head_map(b, i == 0 ? "map" : "map.b", box, values[i], colours(drawn.scale, o), look);
    const bool preview = i == 1 ? o.preview_b : o.preview || (o.compare == MapCompare::difference && o.preview_b);
    if (preview) {
      b.preview_frame(box);
      badge_right = box.right() + 2;
    }
    x += l.map_w;
    if (l.marginal_w > 0) {
      draw_marginal(b, {x + kMarginalGap, l.top, l.marginal_w, l.map_h}, drawn, each && l.heads_title);
      x += kMarginalGap + l.marginal_w;
    }
    if (own_bars || last)
      draw_bar(b, i == 1 && own_bars ? "bar.b" : "bar", {x + kBarGap, l.top, 0, l.map_h},
               own_bars ? std::span(values).subspan(i, 1) : std::span(values), drawn, extras);
    if (own_bars) x += kBarGap + l.bar_w;
    x += l.gap;
  }
  if (l.heads_title && !each && values.size() > 1) draw_shared_title(b, l, pitch + l.map_w, o);
  if (badge_right > 0) b.preview_badge(badge_right, l.top - 4 - caption_height(style, static_cast<int>(values.size())));
  b.figure().title = std::string(metric_info(o.metric).title) + " by layer and KV head";
  return {std::move(b.figure()), tidy(maps, values, order, runs.size(), o), describe(runs, maps, scales, o)};
}

}  // namespace kvscope::views
