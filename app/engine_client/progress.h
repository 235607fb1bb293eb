#pragma once
// Progress on stderr: a bar that redraws itself on a terminal, a plain line now and then elsewhere. For a program that watches
// (KVSCOPE_PROGRESS=json): {"phase", "value", "max", "text"} on a line.

#include <chrono>
#include <string>
#include <string_view>

namespace kvscope::app {

/// "warning: ..." on stderr.
void print_warning(std::string_view text);

class Progress {
 public:
  /// quiet: nothing is ever written.
  explicit Progress(bool quiet = false);
  ~Progress();
  /// A task's state: `value` of `max` (0: unknown), and a word about it ("41.3 tok/s"). ETA comes from the rate since
  /// the phase began, at whatever value it began with.
  void update(const std::string& phase, double value, double max, const std::string& text = "");
  /// Removes the bar from the terminal, so that other output can be written.
  void clear();
  /// A line about what was done, if there is one.
  void say(const std::string& line);

 private:
  bool quiet_, terminal_, is_json_, drawn_ = false;
  std::string phase_;
  double first_ = 0;  // value at the phase's beginning
  std::chrono::steady_clock::time_point phase_start_, last_;
};

}  // namespace kvscope::app
