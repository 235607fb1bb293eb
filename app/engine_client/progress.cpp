#include "app/engine_client/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr int kBarWidth = 24;
constexpr std::chrono::milliseconds kTerminalInterval(100);
constexpr std::chrono::milliseconds kPlainInterval(5000);

// "0:07", "12:05", "1:02:03".
std::string format_duration(double seconds) {
  const long s = std::lround(std::clamp(seconds, 0.0, 3.6e8));
  char text[32];
  if (s >= 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
  }
  return text;
}

bool asks_for_json() {
  const char* form = std::getenv("KVSCOPE_PROGRESS");
  return form != nullptr && std::string_view(form) == "json";
}

void write_json(const std::string& phase, double value, double max, const std::string& text) {
  const nlohmann::ordered_json line = {{"phase", phase}, {"value", value}, {"max", max}, {"text", text}};
  std::fprintf(stderr, "%s\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace

void print_warning(std::string_view text) {
  constexpr std::size_t kMostBytes = 1000;  // paths are long
  std::fprintf(stderr, "warning: %s\n", escape_for_terminal(text, kMostBytes).c_str());
}

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) != 0), is_json_(asks_for_json()) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::say(const std::string& line) {
  if (quiet_ || line.empty()) return;
  clear();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Progress::update(const std::string& phase, double value, double max, const std::string& text) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  const bool new_phase = phase != phase_;
  if (new_phase) phase_ = phase, phase_start_ = now, first_ = value;
  if (!new_phase && now - last_ < (terminal_ || is_json_ ? kTerminalInterval : kPlainInterval)) return;
  last_ = now;
  if (is_json_) return write_json(phase, value, max, text);

  const double seconds = std::chrono::duration<double>(now - phase_start_).count();
  std::string line = escape_for_terminal(phase, 80);
  char number[96];
  if (max > 0) {
    const double share = std::clamp(value / max, 0.0, 1.0);
    if (terminal_) {
      const int full = static_cast<int>(share * kBarWidth);
      line += " [" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "]";
    }
    std::snprintf(number, sizeof number, " %.0f/%.0f (%.0f %%)", value, max, 100 * share);
    line += number;
    if (value > first_ && value < max && seconds > 1)
      line += ", " + format_duration(seconds * (max - value) / (value - first_)) + " left";
  }
  if (!text.empty()) line += "  " + escape_for_terminal(text);
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    drawn_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

}  // namespace kvscope::app
