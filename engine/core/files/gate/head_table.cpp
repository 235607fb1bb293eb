#include "engine/core/files/gate/head_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr std::size_t kMaxBytes = 16u << 20;
constexpr std::size_t kMaxSide = 4096;  // layers, heads

/// Numbers of one line; trained values may lie a little outside [0, 1].
std::vector<float> parse_row(std::string_view line, const std::string& file, int number) {
  std::vector<float> row;
  const std::string where = "line " + std::to_string(number);
  while (true) {
    const auto tab = line.find('\t');
    const auto cell = line.substr(0, tab);
    double value = 0;
    const auto end = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (cell.empty() || end.ec != std::errc() || end.ptr != cell.data() + cell.size() || !std::isfinite(value))
      refuse(file, where, in_quotes(cell, 40), "a number");
    row.push_back(static_cast<float>(std::clamp(value, 0.0, 1.0)));
    if (row.size() > kMaxSide)
      throw Error({.file = file, .where = where, .found = "more than 4096 columns", .expected = "one per KV head"});
    if (tab == std::string_view::npos) return row;
    line.remove_prefix(tab + 1);
  }
}

}  // namespace

std::string format_head_table(const std::vector<float>& values, int n_kv_heads) {
  std::string text;
  char number[40];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto end = std::to_chars(number, number + sizeof number, static_cast<double>(values[i]),
                                   std::chars_format::scientific, 18);
    text.append(number, end.ptr);
    text.push_back((i + 1) % static_cast<std::size_t>(n_kv_heads) == 0 ? '\n' : '\t');
  }
  return text;
}

HeadTable parse_head_table(std::string_view text, const std::string& file) {
  HeadTable table;
  for (int number = 1; !text.empty(); ++number) {
    const auto line_end = text.find('\n');
    auto line = text.substr(0, line_end);
    text.remove_prefix(line_end == std::string_view::npos ? text.size() : line_end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() && text.empty()) break;  // a blank last line
    const auto row = parse_row(line, file, number);
    if (table.n_kv_heads == 0) table.n_kv_heads = static_cast<int>(row.size());
    if (row.size() != static_cast<std::size_t>(table.n_kv_heads))
      refuse(file, "line " + std::to_string(number), std::to_string(row.size()) + " columns",
             std::to_string(table.n_kv_heads) + ", as in the first line");
    table.values.insert(table.values.end(), row.begin(), row.end());
    if (++table.n_layers > static_cast<int>(kMaxSide))
      throw Error({.file = file, .found = "more than 4096 rows", .expected = "one per layer"});
  }
  if (table.n_layers == 0) throw Error({.file = file, .found = "an empty file", .expected = "one row per layer"});
  return table;
}

HeadTable read_head_table(const std::filesystem::path& path) {
  return parse_head_table(read_file(path, kMaxBytes), path.string());
}

}  // namespace kvscope
