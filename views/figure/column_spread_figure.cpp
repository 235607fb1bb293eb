#include "views/figure/column_spread_figure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/study/measure/quantile.h"
#include "engine/core/support/error.h"
#include "views/figure/plot.h"
#include "views/figure/study_lines_figure.h"

namespace kvscope::views {
namespace {

using Kind = PlotLegendEntry::Kind;

[[noreturn]] void refuse(const std::string& where, const std::string& found, const std::string& expected) {
  throw Error({ExitCode::bad_input, "", where, found, expected, ""});
}

std::vector<const StudyColumn*> columns_of(const StudyTable& study, const std::string& prefix) {
  std::vector<const StudyColumn*> columns;
  for (const StudyColumn& column : study.columns) {
    if (!column.is_text && column.name.starts_with(prefix)) columns.push_back(&column);
  }
  if (columns.empty())
    refuse(in_quotes(prefix), "no column of numbers has this prefix",
           "columns such as open_0_1, which kvscope train writes for a gate");
  return columns;
}

/// Rows that are drawn, by x.
std::vector<std::size_t> rows_of(const StudyTable& study, const ColumnSpreadOptions& o) {
  const std::vector<double>& x = study.numbers(o.x, "");
  const std::vector<bool> wanted = matching_rows(study, o.where);
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < x.size(); ++row) {
    if (wanted[row] && !std::isnan(x[row])) rows.push_back(row);
  }
  if (rows.empty()) refuse(in_quotes(o.x), "no row is left", "at least one");
  std::ranges::stable_sort(rows, {}, [&](std::size_t row) { return x[row]; });
  return rows;
}

struct Plot {
  PlotBox axes;
  const std::vector<double>& x;
  const std::vector<std::size_t>& rows;
  Point at(double vx, double v) const { return axes.at(vx, std::clamp(v, axes.y.lo, axes.y.hi)); }
};

void draw_column(FigureBuilder& b, const Plot& plot, const StudyColumn& column, Colour colour, double width,
                 double dash) {
  Polyline line{{}, colour, width, dash};
  for (const std::size_t row : plot.rows) {
    if (!std::isnan(column.numbers[row])) line.points.push_back(plot.at(plot.x[row], column.numbers[row]));
  }
  if (line.points.size() > 1) b.add(std::move(line));
}

void draw_band(FigureBuilder& b, const Plot& plot, const std::vector<SpreadPoint>& spread, double SpreadPoint::*low,
               double SpreadPoint::*high, Colour colour) {
  Polygon area{{}, colour};
  for (const SpreadPoint& p : spread) area.points.push_back(plot.at(p.x, p.*high));
  for (auto p = spread.rbegin(); p != spread.rend(); ++p) area.points.push_back(plot.at(p->x, (*p).*low));
  if (spread.size() > 1) b.add(std::move(area));
}

/// The columns with the greatest, the least and the middle value in the last row.
std::vector<const StudyColumn*> representatives(std::vector<const StudyColumn*> columns, std::size_t last) {
  std::erase_if(columns, [last](const StudyColumn* c) { return std::isnan(c->numbers[last]); });
  std::ranges::stable_sort(columns, {}, [last](const StudyColumn* c) { return c->numbers[last]; });
  if (columns.size() < 3) return {};
  return {columns.back(), columns[columns.size() / 2], columns.front()};
}

FigureData tidy(const std::vector<SpreadPoint>& spread, const std::vector<const StudyColumn*>& columns,
                const Plot& plot) {
  std::vector<std::string> series;
  std::vector<double> x, value;
  const std::pair<const char*, double SpreadPoint::*> quantities[] = {{"p10", &SpreadPoint::p10},
                                                                      {"q1", &SpreadPoint::q1},
                                                                      {"median", &SpreadPoint::median},
                                                                      {"q3", &SpreadPoint::q3},
                                                                      {"p90", &SpreadPoint::p90}};
  for (const auto& [name, member] : quantities) {
    for (const SpreadPoint& p : spread) series.emplace_back(name), x.push_back(p.x), value.push_back(p.*member);
  }
  for (const StudyColumn* column : columns) {
    for (const std::size_t row : plot.rows)
      series.push_back(column->name), x.push_back(plot.x[row]), value.push_back(column->numbers[row]);
  }
  return {{{"series", series}, {"x", x}, {"value", value}}};
}

}  // namespace

std::vector<SpreadPoint> column_spread(const StudyTable& study, const ColumnSpreadOptions& o) {
  const auto columns = columns_of(study, o.prefix);
  const std::vector<double>& x = study.numbers(o.x, "");
  std::vector<SpreadPoint> spread;
  for (const std::size_t row : rows_of(study, o)) {
    std::vector<double> values;
    for (const StudyColumn* column : columns) {
      if (!std::isnan(column->numbers[row])) values.push_back(column->numbers[row]);
    }
    if (values.empty()) continue;
    std::ranges::sort(values);
    spread.push_back({.x = x[row],
                      .p10 = quantile(values, 0.1),
                      .q1 = quantile(values, 0.25),
                      .median = quantile(values, 0.5),
                      .q3 = quantile(values, 0.75),
                      .p90 = quantile(values, 0.9),
                      .n = static_cast<int>(values.size())});
  }
  if (spread.empty()) refuse(in_quotes(o.prefix), "no row has a value", "at least one");
  return spread;
}

BuiltFigure column_spread_figure(const StudyTable& study, const ColumnSpreadOptions& o, const FigureStyle& s) {
  const auto columns = columns_of(study, o.prefix);
  const auto spread = column_spread(study, o);
  const auto rows = rows_of(study, o);
  const std::vector<double>& x = study.numbers(o.x, "");
  std::vector<double> drawn;
  for (const std::size_t row : rows) drawn.push_back(x[row]);
  const SeriesLook look = series_look(0, s.dark);
  const auto named = o.named ? representatives(columns, rows.back()) : std::vector<const StudyColumn*>{};
  constexpr double kDashes[] = {4, 2.2, 1.2};

  std::vector<PlotLegendEntry> entries = {{.kind = Kind::line, .label = "median of " + std::to_string(spread[0].n)},
                                          {.kind = Kind::band, .label = "25 to 75 %, 10 to 90 %"}};
  const char* which[] = {"densest ", "middle ", "sparsest "};
  for (std::size_t i = 0; i < named.size(); ++i)
    entries.push_back(
        {.kind = Kind::line, .label = which[i] + named[i]->name.substr(o.prefix.size()), .dash = kDashes[i]});
  const double margin = s.label_size + 4;
  FigureBuilder measure(s.width, 0, s);
  const double top = draw_plot_legend(measure, {margin, 0}, s.width - margin, entries, true) + 3;
  const PanelGrid grid = panel_grid(s, 1, 1, top, false, false, plot_bottom(s));
  FigureBuilder b(s.width, grid.height, s);
  draw_plot_legend(b, {margin, 0}, s.width - margin, entries);
  const Plot plot{{grid.boxes[0], fit_plot_axis(drawn, o.log_x, false), {.lo = o.lo, .hi = o.hi}}, x, rows};
  const std::string x_label = o.x_label.empty() ? column_label(study, o.x) : o.x_label,
                    y_label = o.y_label.empty() ? "Share of tokens kept, by head" : o.y_label;
  draw_plot_axes(b, plot.axes, x_label, y_label);
  if (o.each) {
    for (const StudyColumn* column : columns) draw_column(b, plot, *column, with_alpha(s.muted, 70), 0.3, 0);
  }
  draw_band(b, plot, spread, &SpreadPoint::p10, &SpreadPoint::p90, with_alpha(look.colour, 40));
  draw_band(b, plot, spread, &SpreadPoint::q1, &SpreadPoint::q3, with_alpha(look.colour, 60));
  Polyline median{{}, s.ink, 1.3, 0};
  for (const SpreadPoint& p : spread) median.points.push_back(plot.at(p.x, p.median));
  if (median.points.size() > 1) b.add(std::move(median));
  for (std::size_t i = 0; i < named.size(); ++i) draw_column(b, plot, *named[i], s.ink, 0.8, kDashes[i]);
  b.frame(plot.axes.box);
  b.figure().panels.push_back({"spread", plot.axes.box, 0, 0});
  b.figure().title = y_label + " against " + x_label;
  std::string caption = y_label + " against " + x_label + ". Solid: median of " + std::to_string(spread[0].n) +
                        " columns; shaded: 25th to 75th and 10th to 90th percentile";
  if (o.each) caption += "; thin grey: each";
  if (!named.empty()) caption += "; dashed: the densest, the middle and the sparsest at the end";
  StudyPick pick;
  pick.where = o.where;
  return {std::move(b.figure()), tidy(spread, columns, plot), caption + "." + describe_study(study, pick)};
}

}  // namespace kvscope::views
