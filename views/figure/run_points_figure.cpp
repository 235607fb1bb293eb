#include "views/figure/run_points_figure.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "engine/core/policy/scorer_text.h"
#include "engine/core/support/error.h"
#include "views/figure/fonts.h"
#include "views/figure/policy_words.h"
#include "views/figure/study_lines_figure.h"

namespace kvscope::views {
namespace {

constexpr double kLabelShare = 0.45;  // of a panel's width, at most
constexpr std::size_t kMostLooks = 16;

StudyColumn measure_column(const RunMeasureInfo& info) {
  return {.name = std::string(info.name), .units = std::string(info.units), .meaning = std::string(info.definition)};
}

/// The runs with a dot, those of one method together: which look a method has does not depend on how a table is sorted.
std::vector<int> order_of(std::span<const MeasuredRun> runs, const RunPointsOptions& o) {
  std::vector<int> order = o.drawn;
  if (order.empty()) {
    order.resize(runs.size());
    std::iota(order.begin(), order.end(), 0);
  }
  std::ranges::stable_sort(order, {}, [&](int i) { return std::pair(runs[static_cast<std::size_t>(i)].method, i); });
  return order;
}

StudyTable table_of(std::span<const MeasuredRun> runs, const std::vector<int>& order) {
  StudyColumn method{.name = "method", .units = "", .meaning = "", .is_text = true};
  std::vector<StudyColumn> columns;
  for (const RunMeasureInfo& info : run_measures()) columns.push_back(measure_column(info));
  for (const int i : order) {
    const MeasuredRun& run = runs[static_cast<std::size_t>(i)];
    method.texts.push_back(run.method);
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].numbers.push_back(run.measures.values[c]);
  }
  columns.push_back(std::move(method));
  return {.kind = std::string(kEvalStudy), .request = "{}", .facts = "{}", .columns = std::move(columns)};
}

FigureData data_of(std::span<const MeasuredRun> runs, const std::vector<int>& order) {
  std::vector<std::string> names, policies, methods;
  std::vector<std::int64_t> drawn(runs.size(), 0);
  for (const MeasuredRun& run : runs)
    names.push_back(run.name), policies.push_back(run.policy), methods.push_back(run.method);
  for (const int i : order) drawn[static_cast<std::size_t>(i)] = 1;
  FigureData data{{{"run", names}, {"policy", policies}, {"method", methods}, {"drawn", drawn}}};
  for (const RunMeasureInfo& info : run_measures()) {
    std::vector<double> values;
    for (const MeasuredRun& run : runs) values.push_back(run.measures[info.measure]);
    data.columns.push_back({std::string(info.name), std::move(values)});
  }
  return data;
}

double shared_area(const Box& a, const Box& b) {
  const double w = std::min(a.right(), b.right()) - std::max(a.x, b.x);
  const double h = std::min(a.bottom(), b.bottom()) - std::max(a.y, b.y);
  return w > 0 && h > 0 ? w * h : 0;
}

/// Beside, above or below its dot, where it covers least of what is there, dots before labels. Inside the panel.
Box place_label(const Box& dot, double width, double height, const Box& panel, const std::vector<Box>& dots,
                const std::vector<Box>& labels) {
  constexpr double kGap = 2, kDotBeforeLabel = 20;
  const double middle = dot.centre().y - height / 2, centre = dot.centre().x - width / 2;
  std::vector<Point> corners = {{dot.right() + kGap, middle},
                                {dot.x - kGap - width, middle},
                                {centre, dot.y - kGap - height},
                                {centre, dot.bottom() + kGap}};
  for (const int lines : {-1, 1, -2, 2}) {
    corners.push_back({dot.right() + kGap, middle + lines * height});
    corners.push_back({dot.x - kGap - width, middle + lines * height});
  }
  std::optional<Box> best;
  double least = 0;
  for (const Point& corner : corners) {
    const Box box{std::clamp(corner.x, panel.x, std::max(panel.x, panel.right() - width)),
                  std::clamp(corner.y, panel.y, std::max(panel.y, panel.bottom() - height)), width, height};
    double covered = 0;
    for (const Box& other : dots) covered += kDotBeforeLabel * shared_area(box, other);
    for (const Box& other : labels) covered += shared_area(box, other);
    if (!best || covered < least) best = box, least = covered;
  }
  return *best;
}

void add_labels(DrawnStudy& drawn, std::span<const MeasuredRun> runs, const FigureStyle& s) {
  const Box panel = drawn.built.figure.panel("panel.0")->box;
  std::vector<Box> dots, labels;
  for (const DrawnPoint& point : drawn.points) dots.push_back(point.box);
  for (const DrawnPoint& point : drawn.points) {
    const std::string label = shortened(runs[static_cast<std::size_t>(point.point.row)].name, FontRole::text,
                                        s.tick_size, kLabelShare * panel.w);
    const Box box = place_label(point.box, text_width(label, FontRole::text, s.tick_size), s.tick_size, panel.inset(2),
                                dots, labels);
    labels.push_back(box);
    drawn.built.figure.items.emplace_back(Text{.utf8 = label,
                                               .at = {box.x, box.centre().y},
                                               .role = FontRole::text,
                                               .size = s.tick_size,
                                               .colour = s.ink,
                                               .anchor = Anchor::start,
                                               .baseline = Baseline::middle});
  }
}

void check_runs(std::size_t n_runs, const RunPointsOptions& o) {
  const auto refuse = [](std::string key, std::string found, std::string expected) {
    throw Error({ExitCode::bad_input, "", std::move(key), std::move(found), std::move(expected), ""});
  };
  const std::string n = std::to_string(n_runs);
  if (!o.names.empty() && o.names.size() != n_runs)
    refuse("names", std::to_string(o.names.size()), n + ", one per run");
  for (const int i : o.drawn) {
    if (i < 0 || i >= static_cast<int>(n_runs)) refuse("drawn", std::to_string(i), "a run, 0 to less than " + n);
  }
}

}  // namespace

MeasuredRun measured_run(const RunRecord& run, const RunMeasures& measures, const std::string& name) {
  MeasuredRun measured{name, run.policy.to_string(), method_name(run.policy), measures};
  if (!name.empty()) return measured;
  measured.name = measured.method;
  for (const ParameterLine& line : parameter_lines(run.policy)) {
    if (line.name == "budget") measured.name += " " + line.value;
  }
  return measured;
}

DrawnStudy draw_run_points(std::span<const MeasuredRun> runs, const RunPointsOptions& o, const FigureStyle& style) {
  check_runs(runs.size(), o);
  const std::vector<int> order = order_of(runs, o);
  const RunMeasureInfo &x = info_of(o.x), &y = info_of(o.y);
  std::set<std::string> methods;
  for (const int i : order) methods.insert(runs[static_cast<std::size_t>(i)].method);
  StudyLinesOptions lines{.line = false, .legend = false};
  lines.pick = {.x = std::string(x.name),
                .y = {std::string(y.name)},
                .series = methods.size() > kMostLooks ? "" : "method",
                .dense = "",
                .front = "",
                .knee = ""};
  if (x.units != "bytes") lines.x_label = label_of(o.x);
  if (y.units != "bytes") lines.y_label = label_of(o.y);
  DrawnStudy drawn = draw_study_lines(table_of(runs, order), lines, style);
  for (DrawnPoint& point : drawn.points) point.point.row = order[static_cast<std::size_t>(point.point.row)];
  add_labels(drawn, runs, style);
  drawn.built.data = data_of(runs, order);
  drawn.built.caption += " " + std::string(x.title) + ": " + std::string(x.definition) + ". One dot per run, " +
                         std::to_string(drawn.points.size()) + " of " + std::to_string(runs.size()) + ".";
  return drawn;
}

BuiltFigure run_points_figure(std::span<const RunRecord* const> runs, const RunPointsOptions& options,
                              const FigureStyle& style) {
  check_runs(runs.size(), options);
  std::vector<MeasuredRun> measured;
  for (std::size_t i = 0; i < runs.size(); ++i)
    measured.push_back(measured_run(*runs[i], measure_run(*runs[i]), options.names.empty() ? "" : options.names[i]));
  return draw_run_points(measured, options, style).built;
}

}  // namespace kvscope::views
