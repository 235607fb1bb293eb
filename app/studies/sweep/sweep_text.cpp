// A sweep's table for people, and for programs.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "app/studies/sweep/sweep_derived.h"
#include "app/studies/sweep/sweep_table.h"
#include "app/support/table_text.h"
#include "engine/core/study/table/study_cost.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;
using Cells = std::vector<std::vector<std::string>>;

constexpr const char* kSource = "sweep";

double value_at(const StudyTable& table, const char* name, std::size_t row) {
  const StudyColumn* column = table.column(name);
  return column ? column->numbers[row] : std::numeric_limits<double>::quiet_NaN();
}

std::string difference(const StudyTable& table, std::size_t row) {
  const double value = value_at(table, "nll_difference", row), error = value_at(table, "nll_difference_se", row);
  if (std::isnan(value) || value_at(table, "is_dense", row) > 0) return "";
  return (value < 0 ? "" : "+") + fixed_text(value, 4) + (std::isnan(error) ? "" : " +- " + fixed_text(error, 4));
}

std::string interval(const StudyTable& table, std::size_t row) {
  const double low = value_at(table, "accuracy_low", row);
  return std::isnan(low) ? "" : fixed_text(low, 3) + " - " + fixed_text(value_at(table, "accuracy_high", row), 3);
}

std::string mark(const StudyTable& table, std::size_t row) {
  if (value_at(table, "is_knee", row) > 0) return "* knee";
  return value_at(table, "on_front", row) > 0 ? "*" : "";
}

std::string name_of(const StudyTable& table, std::size_t row) {
  const std::string& gate = table.texts("gate", kSource)[row];
  const StudyColumn* model = table.column("model");
  std::string loads = gate;
  if (model != nullptr && !model->texts[row].empty())
    loads += (gate.empty() ? "" : ", ") + std::filesystem::path(model->texts[row]).filename().string();
  return table.texts("policy", kSource)[row] + (loads.empty() ? "" : " (" + loads + ")");
}

std::vector<std::string> cells_of(const StudyTable& table, std::size_t row) {
  return {name_of(table, row),
          table_number(value_at(table, "n", row), 0),
          table_number(value_at(table, "nll", row), 4),
          difference(table, row),
          table_number(value_at(table, "accuracy", row), 3),
          interval(table, row),
          table_number(value_at(table, "accuracy_relative", row), 3),
          table_number(value_at(table, "cache_size", row), 3),
          table_number(value_at(table, "cache_size_end", row), 3),
          table_number(value_at(table, "cache_bytes", row) / 1e6, 2),
          table_number(value_at(table, "density", row), 3),
          table_number(value_at(table, "read_share", row), 3),
          table_number(value_at(table, "recall", row), 3),
          table_number(value_at(table, "mass_recall", row), 3),
          table_number(value_at(table, "output_error", row), 4),
          table_number(value_at(table, "ms_per_token", row), 2),
          mark(table, row)};
}

std::string heading(const std::string& item, const StudyTable& table, std::size_t row) {
  const double chunk = value_at(table, "chunk", row), seed = value_at(table, "seed", row),
               length = value_at(table, "length", row);
  return item + (std::isnan(length) ? "" : ", length " + number_text(length)) +
         (std::isnan(chunk) ? ", seed " + number_text(seed) : ", chunk " + number_text(chunk)) + "\n";
}

/// Rows of one item, the dense policy first; those of every item name the same policies in the same order.
using ItemRows = std::vector<std::size_t>;

/// Means over the tasks of one length and seed. A policy that lacks an answer has none: the mean over some of the tasks is
/// another number.
std::string averages_text(const StudyTable& table, const std::vector<ItemRows>& tasks) {
  Cells cells = {{"policy", "accuracy", "of dense", "cache size", "density", "read"}};
  const auto mean = [&](std::size_t place, const char* column) {
    double sum = 0;
    for (const ItemRows& rows : tasks) sum += value_at(table, column, rows[place]);
    return sum / static_cast<double>(tasks.size());
  };
  const double dense = mean(0, "accuracy");
  for (std::size_t place = 0; place < tasks[0].size(); ++place) {
    const double accuracy = mean(place, "accuracy");
    cells.push_back({name_of(table, tasks[0][place]), table_number(accuracy, 3), table_number(accuracy / dense, 3),
                     table_number(mean(place, "cache_size"), 3), table_number(mean(place, "density"), 3),
                     table_number(mean(place, "read_share"), 3)});
  }
  return heading("average of " + std::to_string(tasks.size()) + " tasks", table, tasks[0][0]) +
         format_table(without_empty_columns(std::move(cells)));
}

/// Of every length and seed that has several tasks.
std::string all_averages(const StudyTable& table, const std::vector<ItemRows>& items) {
  std::map<std::pair<double, double>, std::vector<ItemRows>> groups;
  for (const ItemRows& rows : items) {
    if (!std::isnan(value_at(table, "chunk", rows[0]))) continue;
    const double length = value_at(table, "length", rows[0]);
    groups[{std::isnan(length) ? 0 : length, value_at(table, "seed", rows[0])}].push_back(rows);
  }
  std::string text;
  for (const auto& [place, tasks] : groups)
    if (tasks.size() > 1) text += "\n" + averages_text(table, tasks);
  return text;
}

/// A line a curve, a column a cost.
std::string matched_text(const StudyTable& table, std::vector<std::size_t> rows) {
  const StudyArray *value = table.array("matched_value"), *cost = table.array("matched_cost"),
                   *more = table.array("matched_difference");
  if (value == nullptr) return "";
  Cells cells = {{"at matched cost"}};
  for (const double at : cost->values) {
    cells[0].push_back(number_text(at));
    cells[0].push_back("- dense");
  }
  double last = -1;
  for (const std::size_t row : rows) {
    const double series = value_at(table, "series", row);
    if (std::isnan(series) || series <= last) continue;
    last = series;
    cells.push_back({table.texts("curve", kSource)[row]});
    for (std::size_t i = 0; i < cost->values.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(series) * cost->values.size() + i;
      cells.back().push_back(std::isnan(value->values[at]) ? "-" : fixed_text(value->values[at], 4));
      cells.back().push_back(std::isnan(more->values[at]) ? "-" : fixed_text(more->values[at], 4));
    }
  }
  return cells.size() > 1 ? "\n" + format_table(cells) : "";
}

}  // namespace

std::string sweep_text(const StudyTable& table) {
  std::string text;
  const auto& cost = table.numbers(study_cost(table), kSource);
  const std::vector<ItemRows> items = rows_by_item(table);
  for (ItemRows rows : items) {
    const ItemRows in_order = rows;
    std::stable_sort(rows.begin() + 1, rows.end(), [&](std::size_t a, std::size_t b) { return cost[a] < cost[b]; });
    Cells cells = {{"policy", "n", "NLL", "NLL - dense", "accuracy", "95 %", "of dense", "cache size", "at the end",
                    "MB", "density", "read", "recall", "mass recall", "output error", "ms/token", "front"}};
    for (const std::size_t row : rows) cells.push_back(cells_of(table, row));
    text += (text.empty() ? "" : "\n") + heading(table.texts("item", kSource)[rows[0]], table, rows[0]) +
            format_table(without_empty_columns(std::move(cells))) + matched_text(table, in_order);
  }
  text += all_averages(table, items);
  if (const auto windows = window_spread(table)) text += windows->warning() + "\n";
  return text;
}

ordered_json sweep_json(const StudyTable& table) {
  ordered_json points = ordered_json::array(), arrays = ordered_json::object();
  for (std::size_t row = 0; row < table.n_points(); ++row) {
    ordered_json point = ordered_json::object();
    for (const StudyColumn& column : table.columns) {
      point[column.name] = column.is_text ? ordered_json(column.texts[row]) : number_or_null(column.numbers[row]);
    }
    points.push_back(std::move(point));
  }
  ordered_json result = {{"points", points}};
  for (const char* name : {"matched_cost", "matched_value", "matched_difference"}) {
    const StudyArray* array = table.array(name);
    if (array == nullptr) continue;
    ordered_json values = ordered_json::array();
    for (const double value : array->values) values.push_back(number_or_null(value));
    result[name] = {{"axes", array->axes}, {"shape", array->shape}, {"values", values}};
  }
  return result;
}

}  // namespace kvscope::app
