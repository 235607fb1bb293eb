#include "app/support/slow_read.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>

#include "app/support/interrupt.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_child.h"

namespace kvscope::app {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct State {
  std::mutex mutex;
  SlowRead read;
  Clock::time_point seen, given_up;
};
State& state() {
  static State one;
  return one;
}

}  // namespace

void say_slow_reads(bool quiet) {
  on_slow_reading([quiet](const std::filesystem::path& file, milliseconds waited) {
    thread_local long said = 0;
    const long tens = waited / std::chrono::seconds(10);
    if (!quiet && tens > 0 && tens != said) {
      std::fprintf(stderr, "%swaiting for %s: the machine is busy or the disk does not respond (%ld s)\n",
                   ::isatty(STDERR_FILENO) ? "\r\033[K" : "", escape_for_terminal(file.string()).c_str(), 10 * tens);
    }
    said = tens;
    return !interrupted();
  });
}

void watch_slow_reads(std::function<void()> wake) {
  on_slow_reading([wake = std::move(wake)](const std::filesystem::path& file, milliseconds waited) {
    const std::scoped_lock lock(state().mutex);
    const int seconds = static_cast<int>(waited / std::chrono::seconds(1));
    const bool is_news = seconds > 0 && (seconds != state().read.seconds || file != state().read.path);
    state().read = {file.string(), seconds};
    state().seen = Clock::now();
    if (is_news && wake) wake();
    return Clock::now() - waited > state().given_up;
  });
}

std::optional<SlowRead> slow_read() {
  const std::scoped_lock lock(state().mutex);
  const bool is_going_on = Clock::now() - state().seen < std::chrono::seconds(1);
  return is_going_on && state().read.seconds > 0 ? std::optional(state().read) : std::nullopt;
}

void give_up_slow_reads(bool at_the_end) {
  const std::scoped_lock lock(state().mutex);
  state().given_up = at_the_end ? Clock::time_point::max() : Clock::now();
}

}  // namespace kvscope::app
