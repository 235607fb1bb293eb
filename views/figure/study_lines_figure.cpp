#include "views/figure/study_lines_figure.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "views/figure/plot.h"

namespace kvscope::views {
namespace {

using Kind = PlotLegendEntry::Kind;

constexpr double kMark = 3.6;
constexpr std::uint8_t kPale = 80;

/// As a person who looks at a growing curve needs it: what comes later changes nothing before it.
void add_means(std::vector<StudyPanel>& panels, int over) {
  for (StudyPanel& panel : panels) {
    for (StudySeries& series : panel.series) {
      for (std::size_t i = 0; i < series.points.size(); ++i) {
        const std::size_t first = i + 1 - std::min<std::size_t>(i + 1, static_cast<std::size_t>(over));
        double sum = 0;
        for (std::size_t j = first; j <= i; ++j) sum += series.points[j].y;
        series.points[i].smooth = sum / static_cast<double>(i + 1 - first);
      }
    }
  }
}

std::vector<double> all_of(const std::vector<StudyPanel>& panels, std::size_t y, bool is_x, bool intervals) {
  std::vector<double> values;
  for (const StudyPanel& panel : panels) {
    if (!is_x && panel.y != y) continue;
    if (!is_x) values.push_back(panel.dense);
    for (const StudySeries& series : panel.series) {
      for (const StudyPoint& p : series.points) {
        values.push_back(is_x ? p.x : p.y);
        if (!is_x && intervals) values.push_back(p.low), values.push_back(p.high);
      }
    }
  }
  return values;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::isnan(v) ? most : std::max(most, std::abs(v));
  return most;
}

struct Axes {
  PlotAxis x;
  std::string x_label;
  std::vector<PlotAxis> y;  // one scale a quantity, in all of its panels
  std::vector<std::string> y_labels;
};

Axes axes_of(const StudyTable& study, const std::vector<StudyPanel>& panels, const StudyLinesOptions& o) {
  Axes axes;
  const auto x = all_of(panels, 0, true, false);
  const AxisUnit x_unit = axis_unit(study, o.pick.x, largest(x));
  axes.x = fit_plot_axis(x, o.log_x, false);
  axes.x.divisor = x_unit.divisor;
  axes.x_label = o.x_label.empty() ? x_unit.label : o.x_label;
  for (std::size_t i = 0; i < o.pick.y.size(); ++i) {
    const auto y = all_of(panels, i, false, o.interval != IntervalMark::none);
    const AxisUnit unit = axis_unit(study, o.pick.y[i], largest(y));
    axes.y.push_back(fit_plot_axis(y, o.log_y, o.zero));
    axes.y.back().divisor = unit.divisor;
    axes.y_labels.push_back(o.y_label.empty() || o.pick.y.size() > 1 ? unit.label : o.y_label);
  }
  return axes;
}

void draw_interval(FigureBuilder& b, const PlotBox& plot, const StudySeries& series, const SeriesLook& look,
                   IntervalMark how) {
  if (how == IntervalMark::band) {
    std::vector<Point> upper, lower;
    for (const StudyPoint& p : series.points) {
      if (std::isnan(p.low) || std::isnan(p.high)) continue;
      upper.push_back(plot.at(p.x, p.high)), lower.push_back(plot.at(p.x, p.low));
    }
    if (upper.size() < 2) how = IntervalMark::whiskers;  // a band of one point is nothing
    if (upper.size() >= 2) {
      upper.insert(upper.end(), lower.rbegin(), lower.rend());
      b.add(Polygon{std::move(upper), with_alpha(look.colour, 50)});
    }
  }
  if (how != IntervalMark::whiskers) return;
  for (const StudyPoint& p : series.points)
    draw_whisker(b, plot.at(p.x, p.y).x, plot.at(p.x, p.low).y, plot.at(p.x, p.high).y, look.colour, 1.6);
}

/// Points that no other beats, over all series: level until the next one, then up or down to it.
void draw_front(FigureBuilder& b, const PlotBox& plot, const StudyPanel& panel) {
  std::vector<StudyPoint> front;
  for (const StudySeries& series : panel.series) {
    for (const StudyPoint& p : series.points) {
      if (p.on_front) front.push_back(p);
    }
  }
  if (front.size() < 2) return;
  std::ranges::stable_sort(front, {}, &StudyPoint::x);
  Polyline steps{{}, front_colour(b.style()), kFrontWidth, 0};
  for (std::size_t i = 0; i < front.size(); ++i) {
    if (i > 0) steps.points.push_back(plot.at(front[i].x, front[i - 1].y));
    steps.points.push_back(plot.at(front[i].x, front[i].y));
  }
  b.add(std::move(steps));
}

void draw_panel(FigureBuilder& b, const PlotBox& plot, const StudyPanel& panel, const StudyLinesOptions& o) {
  const FigureStyle& s = b.style();
  draw_front(b, plot, panel);
  if (!std::isnan(panel.dense)) {
    const double y = plot.at(plot.x.lo, panel.dense).y;
    b.line({plot.box.x, y}, {plot.box.right(), y}, s.ink, 0.8, 3);
  }
  for (std::size_t i = 0; i < panel.series.size(); ++i) {
    const StudySeries& series = panel.series[i];
    const SeriesLook look = series_look(i, s.dark);
    draw_interval(b, plot, series, look, o.interval);
    Polyline line{{}, look.colour, 1.1, look.dash}, smooth = line;
    for (const StudyPoint& p : series.points) line.points.push_back(plot.at(p.x, p.y));
    if (o.smooth > 1) {
      line.colour = with_alpha(look.colour, kPale), line.width = 0.8, line.dash = 0;
      for (const StudyPoint& p : series.points) smooth.points.push_back(plot.at(p.x, p.smooth));
    }
    if (o.line && line.points.size() > 1) b.add(line);
    if (smooth.points.size() > 1) b.add(smooth);
    const bool alone = line.points.size() == 1;
    for (const Point& at : line.points) {
      if (o.marks || alone || !o.line) draw_mark(b, look.mark, at, kMark, look.colour);
    }
    for (const StudyPoint& p : series.points) {
      if (p.is_knee) draw_star(b, plot.at(p.x, p.y), 5.5, s.ink);
    }
  }
}

struct Shown {
  bool interval = false, front = false, knee = false, dense = false;
};

Shown what_is_shown(const std::vector<StudyPanel>& panels, const StudyLinesOptions& o) {
  Shown shown;
  for (const StudyPanel& panel : panels) {
    int on_front = 0;
    shown.dense |= !std::isnan(panel.dense);
    for (const StudySeries& series : panel.series) {
      for (const StudyPoint& p : series.points) {
        shown.interval |= o.interval != IntervalMark::none && !std::isnan(p.low);
        shown.knee |= p.is_knee, on_front += p.on_front;
      }
    }
    shown.front |= on_front > 1;
  }
  return shown;
}

std::vector<PlotLegendEntry> legend_of(const std::vector<StudyPanel>& panels, const Shown& shown) {
  std::vector<PlotLegendEntry> entries;
  for (std::size_t i = 0; i < panels[0].series.size(); ++i) {
    const std::string& name = panels[0].series[i].name;
    const bool drawn = std::ranges::any_of(panels, [i](const StudyPanel& p) { return !p.series[i].points.empty(); });
    if (drawn && !name.empty()) entries.push_back({.kind = Kind::series, .label = name, .i = i});
  }
  if (shown.dense) entries.push_back({.kind = Kind::line, .label = "dense", .dash = 3});
  if (shown.front) entries.push_back({.kind = Kind::front, .label = "Pareto front"});
  if (shown.knee) entries.push_back({.kind = Kind::star, .label = "knee"});
  return entries;
}

FigureData tidy(const std::vector<StudyPanel>& panels, const StudyLinesOptions& o) {
  const StudyPick& pick = o.pick;
  std::vector<std::string> panel, quantity, series;
  std::vector<double> x, value, low, high, smooth;
  std::vector<std::int64_t> n, front, knee;
  const auto row = [&](const StudyPanel& of, const std::string& name, const StudyPoint& p) {
    panel.push_back(of.title), quantity.push_back(pick.y[of.y]), series.push_back(name);
    x.push_back(p.x), value.push_back(p.y), low.push_back(p.low), high.push_back(p.high), smooth.push_back(p.smooth);
    n.push_back(p.n), front.push_back(p.on_front), knee.push_back(p.is_knee);
  };
  for (const StudyPanel& of : panels) {
    for (const StudySeries& s : of.series) {
      for (const StudyPoint& p : s.points) row(of, s.name, p);
    }
    if (!std::isnan(of.dense)) row(of, "dense", {.x = std::nan(""), .y = of.dense});
  }
  FigureData data{{{"panel", panel},
                   {"quantity", quantity},
                   {"series", series},
                   {"x", x},
                   {"value", value},
                   {"low", low},
                   {"high", high},
                   {"n", n},
                   {"on_front", front},
                   {"knee", knee}}};
  if (o.smooth > 1) data.columns.push_back({"smooth", smooth});
  return data;
}

/// " (no other row ...)" of a column that is 1 there: its meaning without the "1: ".
std::string meaning_of(const StudyTable& study, const std::string& name) {
  const std::string& meaning = study.column(name)->meaning;
  return meaning.empty() ? "" : " (" + (meaning.starts_with("1: ") ? meaning.substr(3) : meaning) + ")";
}

std::string describe(const StudyTable& study, const Axes& axes, const Shown& shown, const StudyLinesOptions& o) {
  std::string text;
  for (const std::string& label : axes.y_labels) text += (text.empty() ? "" : "; ") + label;
  text += " against " + axes.x_label + ".";
  if (shown.interval) {
    text += (o.interval == IntervalMark::band ? " Bands: " : " Whiskers: ") + interval_name(study, o.pick.y[0]);
    if (!o.pick.combine.empty()) text += "; for points that are a mean, from the lowest to the highest";
    text += ".";
  }
  if (o.smooth > 1) text += " Pale: each point; line: the mean of the last " + std::to_string(o.smooth) + " points.";
  if (shown.dense) text += " Dashed: the dense cache.";
  if (shown.front) text += " Grey steps: Pareto front" + meaning_of(study, o.pick.front) + ".";
  if (shown.knee) text += " Star: knee" + meaning_of(study, o.pick.knee) + ".";
  return text + describe_study(study, o.pick);
}

}  // namespace

std::string interval_name(const StudyTable& study, const std::string& y) {
  const StudyColumn* low = study.column(y + "_low");
  std::string name = low && !low->meaning.empty() ? low->meaning : "95 % interval";
  if (constexpr std::string_view kEnd = "lower end of "; name.starts_with(kEnd)) name.erase(0, kEnd.size());
  return name;
}

std::string describe_study(const StudyTable& study, const StudyPick& pick) {
  std::string text;
  for (const std::string& y : pick.y) {
    const StudyColumn* column = study.column(y);
    if (column && !column->meaning.empty()) text += " " + column_label(study, y) + ": " + column->meaning + ".";
  }
  if (!pick.where.empty()) {
    text += " Points with";
    for (std::size_t i = 0; i < pick.where.size(); ++i) text += (i ? ", " : " ") + pick.where[i];
    text += ".";
  }
  if (!pick.combine.empty()) text += " Points with the same " + pick.combine + " are drawn as their mean.";
  const auto facts = nlohmann::json::parse(study.facts, nullptr, false);
  if (!facts.is_object()) return text;
  const std::pair<const char*, const char*> kFacts[] = {{"model", "Model"}, {"device", "device"}, {"dtype", "in"}};
  std::string of;
  for (const auto& [key, word] : kFacts) {
    if (!facts.contains(key) || !facts[key].is_string()) continue;
    of += (of.empty() ? " " : ", ") + std::string(word) + " " + facts[key].get<std::string>();
  }
  return text + (of.empty() ? "" : of + ".");
}

BuiltFigure study_lines_figure(const StudyTable& study, const StudyLinesOptions& options, const FigureStyle& style) {
  return draw_study_lines(study, options, style).built;
}

DrawnStudy draw_study_lines(const StudyTable& study, const StudyLinesOptions& options, const FigureStyle& s) {
  StudyLinesOptions o = options;
  o.pick = resolved(study, o.pick);
  std::vector<StudyPanel> panels = study_panels(study, o.pick, false);
  if (o.smooth > 1) add_means(panels, o.smooth);
  const Axes axes = axes_of(study, panels, o);
  const Shown shown = what_is_shown(panels, o);
  const auto entries = o.legend ? legend_of(panels, shown) : std::vector<PlotLegendEntry>{};
  const double margin = s.label_size + 4, width = s.width - margin;
  FigureBuilder measure(s.width, 0, s);
  const double top = draw_plot_legend(measure, {margin, 0}, width, entries, true) + 3;
  const bool own_labels = o.pick.y.size() > 1, titles = !o.pick.panel.empty();
  const PanelGrid grid =
      panel_grid(s, static_cast<int>(panels.size()), o.columns, top, own_labels, titles, plot_bottom(s), axes.y);

  FigureBuilder b(s.width, grid.height, s);
  std::vector<DrawnPoint> points;
  draw_plot_legend(b, {margin, 0}, width, entries);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const StudyPanel& panel = panels[i];
    const PlotBox plot{grid.boxes[i], axes.x, axes.y[panel.y]};
    const bool first = static_cast<int>(i) % grid.columns == 0;
    draw_plot_axes(b, plot, axes.x_label, own_labels || first ? axes.y_labels[panel.y] : "", true, grid.ticks);
    if (titles)
      b.text(panel.title, {plot.box.x, plot.box.y - 4}, s.label_size, s.ink, Anchor::start, Baseline::alphabetic, 0,
             FontRole::bold);
    draw_panel(b, plot, panel, o);
    for (const StudySeries& series : panel.series) {
      for (const StudyPoint& p : series.points) {
        const Point at = plot.at(p.x, p.y);
        points.push_back({i, o.pick.y[panel.y], series.name, p, {at.x - kMark, at.y - kMark, 2 * kMark, 2 * kMark}});
      }
    }
    b.frame(plot.box);
    b.figure().panels.push_back({"panel." + std::to_string(i), plot.box, 0, 0});
  }
  b.figure().title = axes.y_labels[0] + " against " + axes.x_label;
  return {{std::move(b.figure()), tidy(panels, o), describe(study, axes, shown, o)}, std::move(points)};
}

}  // namespace kvscope::views
