#pragma once
// A study's table as a test writes it down: "policy,seconds[s]\nfull,2\ntova,\n", a heading with units, then a line a point. No
// cell has a comma.

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <string>

#include "engine/core/study/table/study_table.h"

namespace kvscope::test {

/// A column of cells that are numbers or empty (NaN) is one of numbers.
inline StudyTable study_of(const std::string& text, std::string_view kind = kSweepStudy) {
  StudyTable table{.kind = std::string(kind), .request = "{}", .facts = "{}"};
  std::istringstream lines(text);
  std::string line, cell;
  std::getline(lines, line);
  for (std::istringstream names(line); std::getline(names, cell, ',');) {
    const std::size_t unit = std::min(cell.find('['), cell.size());
    const std::string units = unit == cell.size() ? "" : cell.substr(unit + 1, cell.size() - unit - 2);
    table.columns.push_back({.name = cell.substr(0, unit), .units = units, .meaning = "", .is_text = false});
  }
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    for (StudyColumn& column : table.columns) {
      cell.clear();
      std::getline(cells, cell, ',');
      column.texts.push_back(cell);
    }
  }
  for (StudyColumn& column : table.columns) {
    for (const std::string& text_of : column.texts) {
      double value = std::numeric_limits<double>::quiet_NaN();
      const auto end = std::from_chars(text_of.data(), text_of.data() + text_of.size(), value).ptr;
      column.is_text |= end != text_of.data() + text_of.size();
      column.numbers.push_back(value);
    }
    column.is_text ? column.numbers.clear() : column.texts.clear();
  }
  return table;
}

}  // namespace kvscope::test
