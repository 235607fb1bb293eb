#pragma once
// A file whose reader gets no answer, because the machine is busy or its disk stands still: how long it has been waited for, and
// how to give it up. For all readers of this program (engine/core/trace/trace_child.h).

#include <functional>
#include <optional>
#include <string>

namespace kvscope::app {

/// For a command: a line on stderr every ten seconds, and Ctrl+C ends the wait.
void say_slow_reads(bool quiet);

/// For the window: `wake` is called once a second, by the thread that waits, so that it is drawn.
void watch_slow_reads(std::function<void()> wake);
struct SlowRead {
  std::string path;
  int seconds = 0;
};
/// What is waited for now; nothing before it has taken a second.
std::optional<SlowRead> slow_read();
/// Ends the waits that are going on. Those that begin later are waits again, unless the program ends.
void give_up_slow_reads(bool at_the_end = false);

}  // namespace kvscope::app
