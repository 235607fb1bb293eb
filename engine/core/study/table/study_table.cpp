#include "engine/core/study/table/study_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/support/csv.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr std::size_t kMostPoints = std::size_t{1} << 20;
constexpr std::size_t kLongestName = 64;

bool is_name(const std::string& name) {
  if (name.empty() || name.size() > kLongestName || name[0] < 'a' || name[0] > 'z') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

void check_json(const std::string& text, const char* what, const std::string& file) {
  if (nlohmann::json::parse(text, nullptr, false).is_object()) return;
  throw Error({.file = file, .where = what, .found = "not a JSON object", .expected = "a whole study"});
}

void check_names(const StudyTable& table, const std::string& file) {
  std::set<std::string> seen;
  const auto check = [&](const std::string& name) {
    if (!is_name(name)) {
      throw Error({.file = file,
                   .where = in_quotes(name),
                   .found = "not a column's name",
                   .expected = "lower case words with underscores"});
    }
    if (!seen.insert(name).second) throw Error({.file = file, .where = name, .found = "listed twice"});
  };
  for (const StudyColumn& column : table.columns) check(column.name);
  for (const StudyArray& array : table.arrays) check(array.name);
}

void check_columns(const StudyTable& table, const std::string& file) {
  if (table.columns.empty()) throw Error({.file = file, .found = "a study without columns"});
  if (table.n_points() > kMostPoints) throw Error({.file = file, .found = "more than 1,048,576 points"});
  for (const StudyColumn& column : table.columns) {
    const bool both = !column.numbers.empty() && !column.texts.empty();
    if (column.size() == table.n_points() && !both) continue;
    throw Error({.file = file,
                 .where = column.name,
                 .found = std::to_string(column.size()) + " values",
                 .expected = std::to_string(table.n_points()) + ", one per point"});
  }
}

void check_arrays(const StudyTable& table, const std::string& file) {
  std::map<std::string, std::int64_t> lengths = {{"point", static_cast<std::int64_t>(table.n_points())}};
  for (const StudyArray& array : table.arrays) {
    if (array.axes.size() != array.shape.size() || array.axes.empty()) {
      throw Error({.file = file, .where = array.name, .found = "an array whose axes are not those of its shape"});
    }
    std::uint64_t n = 1;
    for (std::size_t i = 0; i < array.axes.size(); ++i) {
      const auto [known, is_new] = lengths.emplace(array.axes[i], array.shape[i]);
      if (!is_name(array.axes[i]) || array.shape[i] < 0 || (!is_new && known->second != array.shape[i])) {
        throw Error({.file = file,
                     .where = array.name,
                     .found = "axis " + in_quotes(array.axes[i]) + " of " + std::to_string(array.shape[i]),
                     .expected = "one length for each axis"});
      }
      // No overflow: as soon as it is more than there are values, it is wrong.
      n = std::min<std::uint64_t>(n * static_cast<std::uint64_t>(std::min<std::int64_t>(array.shape[i], 1 << 30)),
                                  std::uint64_t{1} << 32);
    }
    if (n != array.values.size()) {
      throw Error({.file = file,
                   .where = array.name,
                   .found = std::to_string(array.values.size()) + " values",
                   .expected = "as many as its shape needs"});
    }
  }
}

bool same_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

bool same_column(const StudyColumn& a, const StudyColumn& b) {
  return a.name == b.name && a.units == b.units && a.meaning == b.meaning && a.is_text == b.is_text &&
         a.texts == b.texts && same_numbers(a.numbers, b.numbers);
}

bool same_array(const StudyArray& a, const StudyArray& b) {
  return a.name == b.name && a.units == b.units && a.meaning == b.meaning && a.axes == b.axes && a.shape == b.shape &&
         a.is_float32 == b.is_float32 && same_numbers(a.values, b.values);
}

const StudyColumn& wanted(const StudyTable& table, std::string_view name, bool is_text, const std::string& file) {
  const StudyColumn* column = table.column(name);
  if (column && column->is_text == is_text) return *column;
  std::string there;
  for (const StudyColumn& other : table.columns) {
    if (other.is_text == is_text) there += (there.empty() ? "" : ", ") + other.name;
  }
  throw Error({.file = file,
               .where = in_quotes(name),
               .found = std::string("no column of ") + (is_text ? "texts" : "numbers") + " has this name",
               .expected = "one of " + there});
}

}  // namespace

const StudyColumn* StudyTable::column(std::string_view name) const {
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const auto& c) { return c.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

const StudyArray* StudyTable::array(std::string_view name) const {
  const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const auto& a) { return a.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

const std::vector<double>& StudyTable::numbers(std::string_view name, const std::string& file) const {
  return wanted(*this, name, false, file).numbers;
}

const std::vector<std::string>& StudyTable::texts(std::string_view name, const std::string& file) const {
  return wanted(*this, name, true, file).texts;
}

void check_study(const StudyTable& table, const std::string& file) {
  check_json(table.request, "request", file);
  check_json(table.facts, "facts", file);
  check_names(table, file);
  check_columns(table, file);
  check_arrays(table, file);
}

bool same_study(const StudyTable& a, const StudyTable& b) {
  return a.kind == b.kind && a.request == b.request && a.facts == b.facts &&
         std::equal(a.columns.begin(), a.columns.end(), b.columns.begin(), b.columns.end(), same_column) &&
         std::equal(a.arrays.begin(), a.arrays.end(), b.arrays.begin(), b.arrays.end(), same_array);
}

std::string study_csv(const StudyTable& table) {
  std::string csv;
  for (const StudyColumn& column : table.columns) csv += (csv.empty() ? "" : ",") + csv_cell(column.name);
  csv += '\n';
  for (std::size_t point = 0; point < table.n_points(); ++point) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const StudyColumn& column = table.columns[c];
      if (c > 0) csv += ',';
      if (column.is_text) {
        csv += csv_cell(column.texts[point]);
      } else if (!std::isnan(column.numbers[point])) {
        csv += number_text(column.numbers[point]);
      }
    }
    csv += '\n';
  }
  return csv;
}

}  // namespace kvscope
