#include "app/process/interrupt.h"

#include <signal.h>

#include <initializer_list>

namespace kvscope::app {
namespace {

volatile sig_atomic_t g_interrupted = 0;

void on_signal(int) { g_interrupted = 1; }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESETHAND;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
}

bool interrupted() { return g_interrupted != 0; }

}  // namespace kvscope::app
