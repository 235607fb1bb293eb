#include "app/studies/sweep/sweep_derived.h"

#include <cmath>
#include <map>
#include <tuple>

#include "engine/core/study/table/pareto.h"

namespace kvscope::app {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kDerivedSource = "sweep";  // of a table of our own making

std::vector<double> picked(const std::vector<double>& values, const std::vector<std::size_t>& rows) {
  std::vector<double> some;
  for (const std::size_t row : rows) some.push_back(values[row]);
  return some;
}

/// Of one item: which rows are on the front, and the knee.
void mark_front(const StudyTable& table, const std::string& cost_name, const std::vector<std::size_t>& rows,
                StudyColumn& on_front, StudyColumn& is_knee) {
  const StudyColumn* value_of = value_column(table, rows[0]);
  if (value_of == nullptr) return;
  const std::vector<double> cost = picked(table.numbers(cost_name, kDerivedSource), rows),
                            value = picked(value_of->numbers, rows);
  const Aim aim = value_of->name == "nll" ? Aim::smaller : Aim::larger;
  const std::vector<bool> front = pareto_front(cost, value, Aim::smaller, aim);
  const auto knee = pareto_knee(cost, value, Aim::smaller, aim);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    on_front.numbers[rows[i]] = front[i];
    is_knee.numbers[rows[i]] = knee && *knee == i;
  }
}

struct Matched {
  StudyArray value, difference;
};

/// One line of both arrays: a curve of one item.
void add_matched(const StudyTable& table, const std::string& cost_name, const std::vector<double>& costs,
                 const std::vector<std::size_t>& curve, std::size_t dense, Matched& matched) {
  const StudyColumn* value_of = value_column(table, curve[0]);
  const std::vector<double> cost = picked(table.numbers(cost_name, kDerivedSource), curve);
  const std::vector<double> value =
      value_of ? picked(value_of->numbers, curve) : std::vector<double>(cost.size(), kNaN);
  for (const double at : costs) {
    matched.value.values.push_back(value_at_cost(cost, value, at));
    matched.difference.values.push_back(matched.value.values.back() - (value_of ? value_of->numbers[dense] : kNaN));
  }
}

}  // namespace

const StudyColumn* value_column(const StudyTable& table, std::size_t row) {
  const bool is_text = !std::isnan(table.numbers("chunk", kDerivedSource)[row]);
  return table.column(is_text ? "nll" : "accuracy");
}

std::vector<std::vector<std::size_t>> rows_by_item(const StudyTable& table) {
  const auto& items = table.texts("item", kDerivedSource);
  const auto &chunks = table.numbers("chunk", kDerivedSource), &seeds = table.numbers("seed", kDerivedSource);
  const StudyColumn* lengths = table.column("length");  // older studies have none
  const auto known = [](double number) { return std::isnan(number) ? -1.0 : number; };
  std::map<std::tuple<std::string, double, double, double>, std::size_t> places;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t row = 0; row < table.n_points(); ++row) {
    const double length = lengths ? known(lengths->numbers[row]) : -1;
    const auto [place, is_new] =
        places.try_emplace({items[row], known(chunks[row]), known(seeds[row]), length}, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(row);
  }
  return groups;
}

void add_derived(StudyTable& table, const std::string& cost, const std::vector<double>& matched) {
  const std::size_t n = table.n_points();
  StudyColumn on_front{
      .name = "on_front",
      .units = "",
      .meaning = "1: no other row of its item, length, chunk and seed has less " + cost + " and a better value",
      .numbers = std::vector<double>(n, 0)};
  StudyColumn is_knee{
      .name = "is_knee",
      .units = "",
      .meaning =
          "1: the point of the front farthest below the chord between its ends, with the axes scaled to the front",
      .numbers = std::vector<double>(n, 0)};
  StudyColumn series{.name = "series",
                     .units = "",
                     .meaning = "number of the curve of this item, length, chunk and seed; axis of matched_value",
                     .numbers = std::vector<double>(n, kNaN)};
  Matched values{.value = {.name = "matched_value",
                           .units = "",
                           .meaning = "nll or accuracy at matched_cost, between neighbouring points of the curve",
                           .axes = {"series", "matched"}},
                 .difference = {.name = "matched_difference",
                                .units = "",
                                .meaning = "matched_value - that of the dense policy",
                                .axes = {"series", "matched"}}};
  const auto& curves = table.texts("curve", kDerivedSource);
  std::int64_t n_series = 0;
  for (const auto& rows : rows_by_item(table)) {
    mark_front(table, cost, rows, on_front, is_knee);
    std::vector<std::string> order;
    std::map<std::string, std::vector<std::size_t>> by_curve;
    for (const std::size_t row : rows) {
      if (curves[row].empty()) continue;
      if (!by_curve.contains(curves[row])) order.push_back(curves[row]);
      by_curve[curves[row]].push_back(row);
    }
    for (const std::string& curve : order) {
      for (const std::size_t row : by_curve[curve]) series.numbers[row] = static_cast<double>(n_series);
      add_matched(table, cost, matched, by_curve[curve], rows[0], values);
      ++n_series;
    }
  }
  for (StudyColumn* column : {&on_front, &is_knee, &series}) table.columns.push_back(std::move(*column));
  if (matched.empty()) return;
  const auto n_matched = static_cast<std::int64_t>(matched.size());
  table.arrays.push_back({.name = "matched_cost",
                          .units = "",
                          .meaning = cost + " at which curves are compared",
                          .axes = {"matched"},
                          .shape = {n_matched},
                          .values = matched});
  for (StudyArray* array : {&values.value, &values.difference}) {
    array->shape = {n_series, n_matched};
    table.arrays.push_back(std::move(*array));
  }
}

}  // namespace kvscope::app
