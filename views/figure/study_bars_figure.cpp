#include "views/figure/study_bars_figure.h"

#include <algorithm>
#include <cmath>

#include "views/figure/fonts.h"
#include "views/figure/plot.h"
#include "views/figure/stacked_bars.h"
#include "views/figure/study_lines_figure.h"

namespace kvscope::views {
namespace {

using Kind = PlotLegendEntry::Kind;

struct Axes {
  std::vector<std::string> categories;
  std::vector<PlotAxis> y;
  std::vector<std::string> y_labels;
  bool slanted = false;  // the categories' names, where they do not fit beside each other
  double bottom = 0;     // room below a panel
};

/// Categories by number, as study_panels() counts them.
std::vector<std::string> categories_of(const std::vector<StudyPanel>& panels) {
  std::vector<std::string> names;
  for (const StudyPanel& panel : panels) {
    for (const StudySeries& series : panel.series) {
      for (const StudyPoint& p : series.points) {
        const auto i = static_cast<std::size_t>(p.x);
        names.resize(std::max(names.size(), i + 1));
        names[i] = p.name;
      }
    }
  }
  return names;
}

Axes axes_of(const StudyTable& study, const std::vector<StudyPanel>& panels, const StudyBarsOptions& o,
             std::size_t n_drawn) {
  Axes axes{.categories = categories_of(panels), .y = {}, .y_labels = {}};
  for (std::size_t i = 0; i < n_drawn; ++i) {
    std::vector<double> values;
    double largest = 0;
    for (const StudyPanel& panel : panels) {
      if (panel.y != i) continue;
      values.push_back(panel.dense);
      for (const StudySeries& series : panel.series) {
        for (const StudyPoint& p : series.points) {
          values.push_back(p.y), largest = std::max(largest, std::abs(p.y));
          if (o.interval) values.push_back(p.low), values.push_back(p.high);
        }
      }
    }
    const AxisUnit unit = axis_unit(study, o.pick.y[i], largest);
    axes.y.push_back(fit_plot_axis(values, false, true));
    PlotAxis& y = axes.y.back();
    const double room = o.values ? 0.09 * (y.hi - y.lo) : 0;  // for the numbers at the ends
    if (y.hi > 0) y.hi += room;
    if (y.lo < 0) y.lo -= room;
    axes.y.back().divisor = unit.divisor;
    axes.y_labels.push_back(unit.label);
  }
  return axes;
}

constexpr double kLongestName = 100;  // pt, of a slanted one

/// Names below the bars, level where they fit and else slanted; sets the room that they need.
void measure_names(Axes& axes, double pitch, const FigureStyle& s) {
  double widest = 0;
  for (const std::string& name : axes.categories)
    widest = std::max(widest, text_width(name, FontRole::text, s.tick_size));
  axes.slanted = widest + 3 > pitch;
  axes.bottom = plot_bottom(s) + (axes.slanted ? std::min(widest, kLongestName) * 0.75 : 0);
}

void draw_names(FigureBuilder& b, const Box& box, const Axes& axes) {
  const FigureStyle& s = b.style();
  const double pitch = box.w / static_cast<double>(axes.categories.size());
  for (std::size_t i = 0; i < axes.categories.size(); ++i) {
    const double x = box.x + (static_cast<double>(i) + 0.5) * pitch, y = box.bottom() + FigureBuilder::kTickLength + 2;
    if (axes.slanted) {
      // At 45 degrees a name reaches as far to the left as it does down: the first ones would leave the page.
      const double most = std::min(kLongestName, (x - 1) / 0.72);
      b.text(shortened(axes.categories[i], FontRole::text, s.tick_size, most),
             {x + s.tick_size * 0.3, y + s.tick_size * 0.4}, s.tick_size, s.muted, Anchor::end, Baseline::middle, 45);
    } else {
      b.text(axes.categories[i], {x, y}, s.tick_size, s.muted, Anchor::middle, Baseline::top);
    }
  }
}

/// Returns the box of each bar. `parts`: the panel of a stacked bar's first part, or null.
std::vector<Box> draw_bars(FigureBuilder& b, const PlotBox& plot, const StudyPanel& panel, const StudyPanel* parts,
                           const Axes& axes, const StudyBarsOptions& o) {
  std::vector<Box> bars;
  const FigureStyle& s = b.style();
  const double pitch = plot.box.w / static_cast<double>(axes.categories.size());
  const double width = pitch * 0.76 / static_cast<double>(panel.series.size());
  const double zero = plot.at(plot.x.lo, 0).y;
  for (std::size_t i = 0; i < panel.series.size(); ++i) {
    for (const StudyPoint& p : panel.series[i].points) {
      const double left = plot.box.x + (p.x + 0.12) * pitch + static_cast<double>(i) * width,
                   middle = left + width * 0.45;
      const double y = plot.at(plot.x.lo, p.y).y;
      bars.push_back({left, std::min(y, zero), width * 0.9, std::abs(y - zero)});
      draw_bar(b, bars.back(), i);
      if (const double part = parts ? first_part(*parts, panel.series[i].name, p) : p.y; part < p.y) {
        const double upper = plot.at(plot.x.lo, part).y;
        draw_pale_part(b, {left, y, width * 0.9, upper - y});
      }
      const double low = plot.at(plot.x.lo, p.low).y, high = plot.at(plot.x.lo, p.high).y;
      if (o.interval) draw_whisker(b, middle, low, high, s.ink, std::min(1.8, width * 0.3));
      const std::string text = format_number(p.y / plot.y.divisor, 2);
      if (!o.values || text_width(text, FontRole::text, s.tick_size * 0.9) > width * 1.15) continue;
      const double end = o.interval && !std::isnan(high) ? (p.y < 0 ? std::max(low, y) : std::min(high, y)) : y;
      const double at = p.y < 0 ? end + s.tick_size * 0.75 : end - s.tick_size * 0.7;
      b.text(text, {middle, at}, s.tick_size * 0.9, s.ink, Anchor::middle, Baseline::middle);
    }
  }
  b.line({plot.box.x, zero}, {plot.box.right(), zero}, s.rule, s.rule_width);
  if (std::isnan(panel.dense)) return bars;
  const double y = plot.at(plot.x.lo, panel.dense).y;
  b.line({plot.box.x, y}, {plot.box.right(), y}, s.ink, 0.8, 3);
  return bars;
}

void add_points(std::vector<DrawnPoint>& points, std::size_t i, const StudyPanel& panel, const std::string& quantity,
                const std::vector<Box>& bars) {
  std::size_t n = 0;
  for (const StudySeries& series : panel.series) {
    for (const StudyPoint& p : series.points) points.push_back({i, quantity, series.name, p, bars[n++]});
  }
}

FigureData tidy(const std::vector<StudyPanel>& panels, const StudyPick& pick) {
  std::vector<std::string> panel, quantity, series, category;
  std::vector<double> value, low, high;
  std::vector<std::int64_t> n;
  const auto row = [&](const StudyPanel& of, const std::string& name, const StudyPoint& p) {
    panel.push_back(of.title), quantity.push_back(pick.y[of.y]), series.push_back(name), category.push_back(p.name);
    value.push_back(p.y), low.push_back(p.low), high.push_back(p.high), n.push_back(p.n);
  };
  for (const StudyPanel& of : panels) {
    for (const StudySeries& s : of.series) {
      for (const StudyPoint& p : s.points) row(of, s.name, p);
    }
    if (!std::isnan(of.dense)) row(of, "dense", {.y = of.dense});
  }
  return {{{"panel", panel},
           {"quantity", quantity},
           {"series", series},
           {"category", category},
           {"value", value},
           {"low", low},
           {"high", high},
           {"n", n}}};
}

/// The panels to draw; `parts`: for each the one of its first part, or null. A stack's first part is one of the quantities that
/// begin at n_drawn.
struct Stacks {
  std::vector<StudyPanel> drawn;
  std::vector<const StudyPanel*> parts;
};

Stacks stacks_of(const std::vector<StudyPanel>& panels, const StudyPick& pick, std::size_t n_drawn) {
  Stacks stacks;
  for (const StudyPanel& panel : panels) {
    if (panel.y >= n_drawn) continue;
    const std::vector<std::string> names = sum_parts(pick.y[panel.y]);
    const auto is_part = [&](const StudyPanel& other) {
      return names.size() > 1 && other.y >= n_drawn && other.title == panel.title && pick.y[other.y] == names[0];
    };
    const auto part = std::ranges::find_if(panels, is_part);
    stacks.drawn.push_back(panel);
    stacks.parts.push_back(part == panels.end() ? nullptr : &*part);
  }
  return stacks;
}

std::vector<PlotLegendEntry> legend_of_parts(const StudyPick& pick, std::size_t n_drawn) {
  std::string full, pale;
  for (std::size_t i = 0; i < n_drawn; ++i) {
    const std::vector<std::string> parts = sum_parts(pick.y[i]);
    const auto add = [](std::string& text, const std::string& label) {
      if (text.find(label) == std::string::npos) text += (text.empty() ? "" : ", ") + label;
    };
    if (parts.size() < 2) continue;
    add(full, part_label(parts[0]));
    for (std::size_t part = 1; part < parts.size(); ++part) add(pale, part_label(parts[part]));
  }
  if (full.empty()) return {};
  return {{.kind = Kind::band, .label = "full colour: " + full + "; pale: " + pale}};
}

std::string describe(const StudyTable& study, const std::vector<StudyPanel>& panels, const Axes& axes,
                     const StudyBarsOptions& o) {
  std::string text;
  for (const std::string& label : axes.y_labels) text += (text.empty() ? "" : "; ") + label;
  text += " by " + o.pick.x + (o.pick.series.empty() ? "" : " and " + o.pick.series) + ".";
  bool interval = false, dense = false;
  for (const StudyPanel& panel : panels) {
    dense |= !std::isnan(panel.dense);
    for (const StudySeries& series : panel.series) {
      for (const StudyPoint& p : series.points) interval |= o.interval && !std::isnan(p.low);
    }
  }
  if (interval) text += " Whiskers: " + interval_name(study, o.pick.y[0]) + ", or the range where a bar is a mean.";
  if (dense) text += " Dashed: the dense cache.";
  for (const PlotLegendEntry& entry : legend_of_parts(o.pick, axes.y.size())) text += " Bars: " + entry.label + ".";
  return text + describe_study(study, o.pick);
}

}  // namespace

BuiltFigure study_bars_figure(const StudyTable& study, const StudyBarsOptions& options, const FigureStyle& style) {
  return draw_study_bars(study, options, style).built;
}

DrawnStudy draw_study_bars(const StudyTable& given, const StudyBarsOptions& options, const FigureStyle& s) {
  StudyBarsOptions o = options;
  o.pick = resolved(given, o.pick);
  const StudyTable study = with_sums(given, o.pick.y);
  const std::size_t n_drawn = o.pick.y.size();
  for (std::size_t i = 0; i < n_drawn; ++i) {
    if (const auto parts = sum_parts(o.pick.y[i]); parts.size() > 1) o.pick.y.push_back(parts[0]);
  }
  const std::vector<StudyPanel> all = study_panels(study, o.pick, true);
  const auto [panels, parts] = stacks_of(all, o.pick, n_drawn);
  Axes axes = axes_of(study, panels, o, n_drawn);
  std::vector<PlotLegendEntry> entries;
  bool dense = false;
  for (const StudyPanel& panel : panels) dense |= !std::isnan(panel.dense);
  for (std::size_t i = 0; i < panels[0].series.size(); ++i) {
    const std::string& name = panels[0].series[i].name;
    if (!o.pick.series.empty()) entries.push_back({.kind = Kind::bar, .label = name.empty() ? "(none)" : name, .i = i});
  }
  if (dense) entries.push_back({.kind = Kind::line, .label = "dense", .dash = 3});
  for (PlotLegendEntry& entry : legend_of_parts(o.pick, n_drawn)) entries.push_back(std::move(entry));
  const double margin = s.label_size + 4, width = s.width - margin;
  FigureBuilder measure(s.width, 0, s);
  const double top = draw_plot_legend(measure, {margin, 0}, width, entries, true) + 3;
  const bool own_labels = n_drawn > 1, titles = !o.pick.panel.empty();
  const auto grid_of = [&](double bottom) {
    return panel_grid(s, static_cast<int>(panels.size()), o.columns, top, own_labels, titles, bottom, axes.y);
  };
  measure_names(axes, grid_of(plot_bottom(s)).boxes[0].w / static_cast<double>(axes.categories.size()), s);
  const PanelGrid grid = grid_of(axes.bottom);

  FigureBuilder b(s.width, grid.height, s);
  std::vector<DrawnPoint> points;
  draw_plot_legend(b, {margin, 0}, width, entries);
  const std::string x_label = o.x_label.empty() ? column_label(study, o.pick.x) : o.x_label;
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const StudyPanel& panel = panels[i];
    const PlotBox plot{grid.boxes[i], {0, 1}, axes.y[panel.y]};
    const bool first = static_cast<int>(i) % grid.columns == 0;
    draw_plot_axes(b, plot, "", own_labels || first ? axes.y_labels[panel.y] : "", false, grid.ticks);
    draw_names(b, plot.box, axes);
    b.label(x_label, {plot.box.centre().x, plot.box.bottom() + axes.bottom - s.label_size * 0.7});
    if (titles)
      b.text(panel.title, {plot.box.x, plot.box.y - 4}, s.label_size, s.ink, Anchor::start, Baseline::alphabetic, 0,
             FontRole::bold);
    add_points(points, i, panel, o.pick.y[panel.y], draw_bars(b, plot, panel, parts[i], axes, o));
    b.frame(plot.box);
    b.figure().panels.push_back({"panel." + std::to_string(i), plot.box, static_cast<int>(axes.categories.size()), 1});
  }
  b.figure().title = axes.y_labels[0] + " by " + x_label;
  return {{std::move(b.figure()), tidy(all, o.pick), describe(study, panels, axes, o)}, std::move(points)};
}

}  // namespace kvscope::views
