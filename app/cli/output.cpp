#include "app/cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

template <typename Json>
void write(const Json& value, int indent) {
  const std::string line = value.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

}  // namespace

void write_json_line(const nlohmann::ordered_json& value) { write(value, -1); }
void write_json_line(const nlohmann::json& value) { write(value, -1); }
void write_json_pretty(const nlohmann::ordered_json& value) { write(value, 2); }

void flush_stdout() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  if (errno == EPIPE) throw Error({.code = ExitCode::done, .file = "stdout", .found = "closed by its reader"});
  throw Error({.code = ExitCode::resource, .file = "stdout", .found = std::strerror(errno)});
}

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

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "-";
  return fixed_text(value, digits);
}

}  // namespace kvscope::app
