#include "app/cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

constexpr int kUnknown = -1;
std::atomic<int> g_stdout_error = 0;  // errno; a sweep's engines are heard in several threads

template <typename Json>
void write(const Json& value) {
  const std::string line = value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

}  // namespace

void write_json_line(const nlohmann::ordered_json& value) { write(value); }
void write_json_line(const nlohmann::json& value) { write(value); }

// The first error counts: later ones may be those of other writes.
bool stdout_is_well() {
  if (std::fflush(stdout) != 0 && g_stdout_error == 0) g_stdout_error = errno;
  if (g_stdout_error == 0 && std::ferror(stdout)) {
    // A write that emptied a full buffer failed, and its reason is lost. Of a pipe without a reader poll() tells.
    pollfd entry{STDOUT_FILENO, POLLOUT, 0};
    g_stdout_error = ::poll(&entry, 1, 0) > 0 && (entry.revents & POLLERR) ? EPIPE : kUnknown;
  }
  return g_stdout_error == 0;
}

void flush_stdout() {
  if (stdout_is_well()) return;
  if (g_stdout_error == EPIPE) {
    throw Error({.code = ExitCode::closed_pipe, .file = "stdout", .found = "closed by the reader"});
  }
  throw Error({.code = ExitCode::resource,
               .file = "stdout",
               .found = g_stdout_error == kUnknown ? "a write failed" : std::strerror(g_stdout_error)});
}

void print_warning(std::string_view text) {
  constexpr std::size_t kMostBytes = 1000;  // paths are long
  std::fprintf(stderr, "warning: %s\n", escape_for_terminal(text, kMostBytes).c_str());
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
