#include "app/support/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>
#include <string_view>

#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
// Asked by several threads, and set in a signal handler, which may touch atomics that take no lock.
std::atomic<int> g_flag_wanted = 0, g_signal = 0;
std::atomic<unsigned> g_longest_end = 0;  // seconds; 0: without a limit
static_assert(std::atomic<int>::is_always_lock_free);

// Only what may be called in a signal handler.
void on_signal(int number) {
  if (g_flag_wanted && g_signal == 0) {
    g_signal = number;
    ::alarm(g_longest_end);
    return;
  }
  constexpr std::string_view kLine = "error: cancelled\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  ::_exit(128 + number);
}

void on_alarm(int) {
  constexpr std::string_view kLine =
      "error: some background work did not end and was abandoned; expected a disk and an engine that respond\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  ::_exit(g_signal != 0 ? 128 + g_signal : static_cast<int>(ExitCode::resource));
}

}  // namespace

void end_on_interrupts() {
  struct sigaction action {
  }, before{};
  action.sa_handler = on_signal;
  for (const int number : kSignals) {
    ::sigaction(number, nullptr, &before);
    if (number != SIGHUP || before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
  }
}

void catch_interrupts() { g_flag_wanted = 1; }

void release_interrupts() { g_flag_wanted = 0; }

void limit_end(unsigned seconds) {
  ::signal(SIGALRM, on_alarm);
  g_longest_end = seconds;
}

void begin_end() {
  if (!interrupted()) ::alarm(g_longest_end);
}

bool interrupted() { return g_signal != 0; }

int exit_code_of(int code) {
  g_flag_wanted = 0;  // nothing is left to be finished
  const bool ours = code == static_cast<int>(ExitCode::done) || code == static_cast<int>(ExitCode::cancelled);
  return interrupted() && ours ? 128 + g_signal : code;
}

}  // namespace kvscope::app
