#include "views/selection/study_look.h"

#include <algorithm>
#include <cmath>

#include "engine/core/study/table/study_cost.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kFewValues = 16;

bool is_number(const StudyTable& study, const std::string& name) {
  const StudyColumn* column = study.column(name);
  return column != nullptr && !column->is_text;
}

bool is_measured(const StudyTable& study, const std::string& name) {
  return is_number(study, name) &&
         std::ranges::any_of(study.column(name)->numbers, [](double v) { return !std::isnan(v); });
}

/// Different values of a column in rows where `y` was measured, in the order of the rows; one more than `most` at most.
std::vector<std::string> few_values(const StudyTable& study, const std::string& name, const std::string& y,
                                    std::size_t most) {
  std::vector<std::string> values;
  std::vector<double> numbers;
  const StudyColumn* column = study.column(name);
  const StudyColumn* measured = is_number(study, y) ? study.column(y) : nullptr;
  if (column == nullptr) return values;
  for (std::size_t row = 0; row < column->size() && values.size() <= most; ++row) {
    if (measured != nullptr && std::isnan(measured->numbers[row])) continue;
    if (column->is_text) {
      const std::string& text = column->texts[row];
      if (std::ranges::find(values, text) == values.end()) values.push_back(text);
    } else if (const double v = column->numbers[row];
               !std::isnan(v) && std::ranges::find(numbers, v) == numbers.end()) {
      numbers.push_back(v);
      values.push_back(number_text(v));
    }
  }
  return values;
}

std::string first_of(const StudyTable& study, std::initializer_list<const char*> names,
                     bool (*suits)(const StudyTable&, const std::string&)) {
  for (const char* name : names) {
    if (suits(study, name)) return name;
  }
  return "";
}

bool is_interval(const std::string& name) {
  return std::ranges::any_of(std::initializer_list<const char*>{"_se", "_low", "_high", "_n"},
                             [&](const char* end) { return name.ends_with(end); });
}

/// The first measured column of numbers besides `other`.
std::string any_number(const StudyTable& study, const std::string& other) {
  for (const StudyColumn& column : study.columns) {
    if (column.name != other && !is_interval(column.name) && is_measured(study, column.name)) return column.name;
  }
  return other;
}

std::string usual_by(const StudyTable& study, const std::string& y, const std::string& x) {
  for (const char* name : {"strategy", "curve", "method", "policy", "source"}) {
    if (name == x) continue;
    const std::size_t n = few_values(study, name, y, kFewValues).size();
    if (n > 1 && n <= kFewValues) return name;
  }
  return "";
}

/// Chunks and seeds are different measurements: points of two of them are not drawn as one curve.
std::vector<std::string> usual_rows(const StudyTable& study, const StudyAxes& axes) {
  std::vector<std::string> where;
  for (const std::string name : {"chunk", "seed"}) {
    if (study.kind != kSweepStudy || name == axes.x || name == axes.by || name == axes.panel) continue;
    const auto values = few_values(study, name, axes.y, 1);
    if (values.size() > 1) where.push_back(name + "=" + values[0]);
  }
  return where;
}

std::string usual_dense(const StudyTable& study) {
  if (is_number(study, "is_dense")) return "is_dense=1";
  if (study.kind == kHybridStudy && study.column("strategy") != nullptr) return "strategy=dense";
  return study.column("method") != nullptr ? "method=full" : "";
}

std::string why_no_front(const StudyTable& study, const StudyAxes& axes) {
  if (!is_number(study, "on_front")) return "This study has no Pareto front.";
  const std::string cost = study_cost(study);
  const bool quality = std::ranges::any_of(
      std::initializer_list<const char*>{"nll", "nll_difference", "perplexity", "accuracy", "accuracy_relative"},
      [&](const char* name) { return axes.y == name; });
  if (axes.x == cost && quality) return "";
  return "The study's Pareto front is NLL or accuracy against " + cost + ". Choose those axes.";
}

StudyPick pick_of(const StudyAxes& axes, const StudyLook& look) {
  const bool front = look.front && axes.no_front.empty();
  return {.x = axes.x,
          .y = {axes.y},
          .series = axes.by,
          .panel = axes.panel,
          .where = axes.where,
          .combine = "",
          .dense = axes.dense,
          .front = front ? "on_front" : "",
          .knee = front ? "is_knee" : ""};
}

}  // namespace

void show_study(StudyLook& look, const std::string& path) {
  if (look.shown == path) return;
  look.shown = path;
  look.where.clear();
  look.point = -1, look.piece = 0;
}

StudyAxes study_axes(const StudyTable& study, const StudyLook& look) {
  StudyAxes axes;
  const auto chosen = [&](const std::string& name) { return study.column(name) != nullptr ? name : std::string(); };
  axes.y =
      is_number(study, look.y)
          ? look.y
          : first_of(study, {"nll_difference", "accuracy", "nll", "loss_boundary", "loss", "loss_all"}, is_measured);
  axes.x = chosen(look.x);
  if (axes.x.empty() && study.kind == kSweepStudy && is_measured(study, study_cost(study))) axes.x = study_cost(study);
  if (axes.x.empty()) {
    axes.x = study.kind == kHybridStudy
                 ? first_of(study, {"share", "density"}, is_measured)
                 : first_of(study, {"cache_size", "density", "prompt_tokens", "step", "cache_bytes"}, is_measured);
  }
  if (axes.x.empty()) axes.x = any_number(study, axes.y);
  if (axes.y.empty()) axes.y = any_number(study, axes.x);
  axes.panel = look.panel == kNoColumn ? "" : chosen(look.panel);
  if (look.panel.empty() && axes.x != "item") {
    const std::size_t n = few_values(study, "item", axes.y, kFewValues).size();
    if (n > 1 && n <= kFewValues) axes.panel = "item";
  }
  axes.by = look.by == kNoColumn ? "" : chosen(look.by);
  if (axes.by.empty() && look.by != kNoColumn) axes.by = usual_by(study, axes.y, axes.x);
  axes.where = look.where.empty() ? usual_rows(study, axes) : look.where;
  if (look.where == std::vector<std::string>{std::string(kAllRows)}) axes.where.clear();
  axes.dense = usual_dense(study);
  axes.no_front = why_no_front(study, axes);
  return axes;
}

FigureOptions study_figure(const StudyTable& study, const StudyLook& look) {
  const StudyAxes axes = study_axes(study, look);
  const StudyColumn* x = study.column(axes.x);
  if (x != nullptr && x->is_text) {
    StudyBarsOptions bars;
    bars.pick = pick_of(axes, look);
    if (bars.pick.series == axes.x) bars.pick.series.clear();
    bars.interval = look.interval != IntervalMark::none;
    return bars;
  }
  StudyLinesOptions lines;
  lines.pick = pick_of(axes, look);
  lines.log_x = look.log_x, lines.log_y = look.log_y, lines.smooth = look.smooth;
  lines.interval = look.interval;
  lines.marks = study.kind != kTrainingStudy;  // hundreds of steps, one beside the other
  return lines;
}

DrawnStudy draw_study(const StudyTable& study, const FigureOptions& options, const FigureStyle& style) {
  if (const auto* bars = std::get_if<StudyBarsOptions>(&options)) return draw_study_bars(study, *bars, style);
  return draw_study_lines(study, std::get<StudyLinesOptions>(options), style);
}

std::vector<int> drawn_rows(const StudyTable& study, const FigureOptions& options) {
  const auto* bars = std::get_if<StudyBarsOptions>(&options);
  const StudyPick& pick = bars != nullptr ? bars->pick : std::get<StudyLinesOptions>(options).pick;
  std::vector<int> rows;
  for (const StudyPanel& panel : study_panels(study, resolved(study, pick), bars != nullptr)) {
    for (const StudySeries& series : panel.series) {
      for (const StudyPoint& point : series.points) rows.push_back(point.row);
    }
  }
  return rows;
}

StudyChoices study_choices(const StudyTable& study) {
  StudyChoices choices;
  for (const StudyColumn& column : study.columns) {
    const auto values = few_values(study, column.name, "", kFewValues);
    if (values.size() > 1 && !is_interval(column.name)) choices.x.push_back(column.name);
    if (!is_interval(column.name) && is_measured(study, column.name)) choices.y.push_back(column.name);
    const bool few = values.size() > 1 && values.size() <= kFewValues;
    // Of numbers those that say what was asked, not what came of it: those have as many values as rows.
    const bool asked = column.is_text || values.size() * 2 <= study.n_points();
    if (!few || !asked || is_interval(column.name)) continue;
    choices.by.push_back(column.name);
    for (const std::string& value : values) {
      if (!value.empty() && value.find('|') == std::string::npos) choices.where.push_back(column.name + "=" + value);
    }
  }
  return choices;
}

std::string point_name(const StudyTable& study, int row) {
  const auto text = [&](const char* name) {
    const StudyColumn* column = study.column(name);
    return column != nullptr && column->is_text ? column->texts[static_cast<std::size_t>(row)] : std::string();
  };
  for (const char* name : {"point", "policy"}) {
    const std::string what = text(name), gate = text("gate"), item = text("item");
    if (what.empty()) continue;
    return what + (gate.empty() ? "" : " (" + gate + ")") + (item.empty() ? "" : ", " + item);
  }
  return "row " + std::to_string(row + 1);
}

std::string value_with_unit(const StudyColumn& column, int row) {
  const auto at = static_cast<std::size_t>(row);
  if (column.is_text) return column.texts[at].empty() ? "–" : column.texts[at];
  const double value = column.numbers[at];
  if (std::isnan(value)) return "–";
  if (column.units == "bytes") return bytes_text(value);
  return number_text(value, 6) + (column.units.empty() ? "" : " " + column.units);
}

const OpenStudy* OpenStudies::shown(const StudyLook& look) const {
  const auto found = std::ranges::find(all, look.shown, &OpenStudy::path);
  return found == all.end() || look.shown.empty() || found->table == nullptr ? nullptr : &*found;
}

}  // namespace kvscope::views
