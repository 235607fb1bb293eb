#include "app/support/table_text.h"

#include <algorithm>
#include <cmath>

#include "engine/core/support/text.h"

namespace kvscope::app {

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (i + 1 < row.size()) cell.resize(widths[i] + 2, ' ');
      text += cell;
    }
    text += '\n';
  }
  return text;
}

std::vector<std::vector<std::string>> without_empty_columns(std::vector<std::vector<std::string>> rows) {
  for (std::size_t column = rows[0].size(); column-- > 0;) {
    const bool used = std::any_of(rows.begin() + 1, rows.end(), [&](const auto& row) { return !row[column].empty(); });
    if (used) continue;
    for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
  return rows;
}

std::string wrapped(std::string_view text, std::size_t indent) {
  constexpr std::size_t kColumns = 100;
  std::string out(text);
  for (char& c : out) c = c == '\n' ? ' ' : c;
  for (std::size_t begin = 0; out.size() - begin > kColumns;) {
    const std::size_t space = out.rfind(' ', begin + kColumns);
    if (space == std::string::npos || space <= begin + indent) break;  // a word longer than a line stays whole
    out.replace(space, 1, "\n" + std::string(indent, ' '));
    begin = space + 1;
  }
  return out + "\n";
}

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "-";
  return fixed_text(value, digits);
}

std::string table_number(double value, int digits) { return std::isnan(value) ? "" : fixed_text(value, digits); }

nlohmann::ordered_json number_or_null(double value) {
  return std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}

std::string number_cell(const nlohmann::ordered_json& value) {
  return value.is_null() ? "-" : format_number(value.get<double>());
}

}  // namespace kvscope::app
