#include "engine/core/study/table/study_csv.h"

#include <charconv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

using Cells = std::vector<std::string>;

std::optional<double> number_of(const std::string& cell) {
  if (cell.empty()) return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  const auto [end, problem] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (problem != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
  return value;
}

/// Takes a line's cells from the front of `text`.
Cells take_line(std::string_view& text, const std::string& file, std::size_t line) {
  Cells cells(1);
  bool quoted = false;
  std::size_t i = 0;
  for (; i < text.size() && (quoted || text[i] != '\n'); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cells.back() += text[++i];
    } else if (c == '"' && (quoted || cells.back().empty())) {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r' || quoted) {
      cells.back() += c;
    }
  }
  if (quoted) refuse(file, "line " + std::to_string(line), "a quote that does not end", "another \"");
  text.remove_prefix(std::min(text.size(), i + 1));
  return cells;
}

/// Numbers, where all of its texts are some.
void read_numbers(StudyColumn& column) {
  for (const std::string& cell : column.texts) {
    const auto number = number_of(cell);
    if (!number) {
      column.is_text = true;
      column.numbers.clear();
      return;
    }
    column.numbers.push_back(*number);
  }
  column.texts.clear();
}

}  // namespace

StudyTable parse_study_csv(std::string_view text, const std::string& file) {
  StudyTable table{.kind = std::string(kTrainingStudy), .request = "{}", .facts = "{}"};
  std::size_t line = 1;
  for (std::string& name : take_line(text, file, line))
    table.columns.push_back({.name = std::move(name), .units = "", .meaning = ""});
  for (++line; !text.empty(); ++line) {
    Cells cells = take_line(text, file, line);
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (cells.size() != table.columns.size())
      refuse(file, "line " + std::to_string(line), std::to_string(cells.size()) + " cells",
             std::to_string(table.columns.size()) + ", as the heading has names");
    for (std::size_t i = 0; i < cells.size(); ++i) table.columns[i].texts.push_back(std::move(cells[i]));
  }
  for (StudyColumn& column : table.columns) {
    if (column.texts.empty()) refuse(file, "", "a heading without a line", "a line for each point");
    read_numbers(column);
  }
  check_study(table, file);
  return table;
}

}  // namespace kvscope
