#include "app/cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostOfLine = 400;  // a reason with its hint
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

void print_lines(const ordered_json& object, const std::string& indent) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      std::printf("%s%s:\n", indent.c_str(), key.c_str());
      print_lines(value, indent + "  ");
    } else {
      const std::string text = value.is_string() ? value.get<std::string>()
                                                 : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
      std::printf("%s%-14s %s\n", indent.c_str(), key.c_str(), escape_for_terminal(text, kMostOfLine).c_str());
    }
  }
}

}  // namespace kvscope::app
