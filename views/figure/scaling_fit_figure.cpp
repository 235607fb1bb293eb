#include "views/figure/scaling_fit_figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/support/text.h"
#include "views/figure/plot.h"
#include "views/figure/study_lines_figure.h"

namespace kvscope::views {
namespace {

using Kind = PlotLegendEntry::Kind;

constexpr double kFitMark = 3.6;
constexpr int kCurvePoints = 96;
constexpr double kFlopsPerParameterAndToken = 6;

StudyTable with_compute(const StudyTable& study) {
  StudyTable table = study;
  if (study.column("train_flops") || !study.column("params") || !study.column("tokens")) return table;
  StudyColumn flops{.name = "train_flops", .units = "", .meaning = "6 · params · tokens"};
  const auto &params = study.numbers("params", ""), &tokens = study.numbers("tokens", "");
  for (std::size_t i = 0; i < params.size(); ++i)
    flops.numbers.push_back(kFlopsPerParameterAndToken * params[i] * tokens[i]);
  table.columns.push_back(std::move(flops));
  return table;
}

struct ComputeRange {
  double lo = std::numeric_limits<double>::infinity(), hi = 0;
  void add(double x) { lo = std::min(lo, x), hi = std::max(hi, x); }
};

/// From the least compute to the most; dashed where nothing was fitted.
void draw_law(FigureBuilder& b, const PlotBox& plot, const FamilyFit& family, Colour colour) {
  ComputeRange all, fitted;
  for (std::size_t i = 0; i < family.points.size(); ++i) {
    all.add(family.points[i].x);
    if (family.fitted[i]) fitted.add(family.points[i].x);
  }
  const auto draw = [&](double lo, double hi, double dash) {
    Polyline line{{}, colour, 1.1, dash};
    for (int i = 0; i < kCurvePoints && hi > lo; ++i) {
      const double x = lo * std::pow(hi / lo, i / (kCurvePoints - 1.0));
      line.points.push_back(plot.at(x, family.law.at(x)));
    }
    if (line.points.size() > 1) b.add(std::move(line));
  };
  draw(all.lo, fitted.lo, 3), draw(fitted.lo, fitted.hi, 0), draw(fitted.hi, all.hi, 3);
}

FigureData tidy(const std::vector<FamilyFit>& families) {
  std::vector<std::string> series;
  std::vector<double> x, value, law, floor, scale, exponent, r2;
  std::vector<std::int64_t> fitted;
  for (const FamilyFit& family : families) {
    for (std::size_t i = 0; i < family.points.size(); ++i) {
      const StudyPoint& p = family.points[i];
      series.push_back(family.name), x.push_back(p.x), value.push_back(p.y), fitted.push_back(family.fitted[i]);
      law.push_back(family.law.at(p.x)), floor.push_back(family.law.floor), scale.push_back(family.law.scale);
      exponent.push_back(family.law.exponent), r2.push_back(family.law.r2);
    }
  }
  return {{{"series", series},
           {"x", x},
           {"value", value},
           {"fitted", fitted},
           {"law", law},
           {"floor", floor},
           {"scale", scale},
           {"exponent", exponent},
           {"r2", r2}}};
}

/// "full: 1.31 + 2.9e+03 C^−0.17, R² = 0.9998."
std::string describe(const FamilyFit& family) {
  const PowerLaw& law = family.law;
  std::string text = " " + (family.name.empty() ? "" : family.name + ": ") + number_text(law.floor, 4) + " + " +
                     number_text(law.scale, 4) + " C^−" + number_text(law.exponent, 4) +
                     ", R² = " + number_text(law.r2, 5);
  double most = 0;
  int n = 0;
  for (std::size_t i = 0; i < family.points.size(); ++i) {
    if (family.fitted[i]) continue;
    most = std::max(most, std::abs(family.points[i].y - family.law.at(family.points[i].x))), ++n;
  }
  if (n > 0)
    text += "; the " + std::to_string(n) + " that the fit has not seen lie within " + number_text(most, 2) + " of it";
  return text + ".";
}

std::string describe(const std::vector<FamilyFit>& families, const std::string& x, const std::string& y) {
  std::string text = y + " against " + x + ", and L(C) = L∞ + A C^−α by least squares.";
  for (const FamilyFit& family : families) text += describe(family);
  const auto held_out = [](const FamilyFit& f) { return std::ranges::find(f.fitted, false) != f.fitted.end(); };
  if (std::ranges::any_of(families, held_out)) text += " Stars and dashed lines: not fitted.";
  return text;
}

}  // namespace

std::vector<FamilyFit> scaling_fits(const StudyTable& study, const ScalingFitOptions& o) {
  const StudyTable table = with_compute(study);
  const StudyPick pick = resolved(table, {.x = o.x, .y = {o.y}, .series = o.series, .where = o.where, .dense = ""});
  const std::vector<bool> fitted = matching_rows(table, o.fit);
  std::vector<FamilyFit> families;
  const std::vector<StudyPanel> panels = study_panels(table, pick, false);
  for (const StudySeries& series : panels[0].series) {
    FamilyFit family{.name = series.name, .points = series.points, .fitted = {}, .law = {}};
    std::vector<double> compute, loss;
    for (const StudyPoint& p : series.points) {
      family.fitted.push_back(fitted[static_cast<std::size_t>(p.row)]);
      if (family.fitted.back()) compute.push_back(p.x), loss.push_back(p.y);
    }
    family.law = fit_power_law(compute, loss);
    families.push_back(std::move(family));
  }
  return families;
}

BuiltFigure scaling_fit_figure(const StudyTable& study, const ScalingFitOptions& o, const FigureStyle& s) {
  const std::vector<FamilyFit> families = scaling_fits(study, o);
  const std::string x_label = o.x_label.empty() ? column_label(study, o.x) : o.x_label,
                    y_label = o.y_label.empty() ? column_label(study, o.y) : o.y_label;
  std::vector<double> x, y;
  std::vector<PlotLegendEntry> entries;
  bool held_out = false;
  for (std::size_t i = 0; i < families.size(); ++i) {
    for (const StudyPoint& p : families[i].points) x.push_back(p.x), y.push_back(p.y);
    held_out |= std::ranges::find(families[i].fitted, false) != families[i].fitted.end();
    entries.push_back({.kind = Kind::series, .label = families[i].name, .i = i});
  }
  if (held_out) entries.push_back({.kind = Kind::star, .label = "not fitted"});
  const double margin = s.label_size + 4;
  FigureBuilder measure(s.width, 0, s);
  const double top = draw_plot_legend(measure, {margin, 0}, s.width - margin, entries, true) + 3;
  const PlotAxis y_axis = fit_plot_axis(y, false, false);
  const PanelGrid grid = panel_grid(s, 1, 1, top, false, false, plot_bottom(s), {&y_axis, 1});
  FigureBuilder b(s.width, grid.height, s);
  draw_plot_legend(b, {margin, 0}, s.width - margin, entries);
  const PlotBox plot{grid.boxes[0], fit_plot_axis(x, true, false), y_axis};
  draw_plot_axes(b, plot, x_label, y_label, true, grid.ticks);
  for (std::size_t i = 0; i < families.size(); ++i) {
    const SeriesLook look = series_look(i, s.dark);
    draw_law(b, plot, families[i], look.colour);
    for (std::size_t p = 0; p < families[i].points.size(); ++p) {
      const Point at = plot.at(families[i].points[p].x, families[i].points[p].y);
      if (families[i].fitted[p]) draw_mark(b, look.mark, at, kFitMark, look.colour);
      if (!families[i].fitted[p]) draw_star(b, at, 5.5, look.colour);
    }
  }
  b.frame(plot.box);
  b.figure().panels.push_back({"fit", plot.box, 0, 0});
  b.figure().title = y_label + " against " + x_label;
  return {std::move(b.figure()), tidy(families), describe(families, x_label, y_label)};
}

}  // namespace kvscope::views
