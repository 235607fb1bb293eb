#pragma once
// What the person is told: banners above the views, a short notice in the status line, the log.

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "app/session/revision.h"

namespace kvscope::app {

/// Something the person should know, with one thing to do about it.
struct Banner {
  enum class Kind { info, warning, error };
  int id = 0;
  Kind kind = Kind::info;
  std::string text;
  std::string command;  // "engine.restart"; empty if there is nothing to press
  std::string button;   // "Restart engine"
  bool cured = false;   // by a new engine: it says how the engine is, not what once happened
};

class Messages {
 public:
  explicit Messages(Revision& revision) : revision_(revision) {}

  const std::vector<Banner>& banners() const { return banners_; }
  /// Stays until it is dismissed itself. Of the others than errors only the newest few stay.
  void add_banner(Banner banner);
  /// There is no engine, which a new one cures.
  void add_engine_error(std::string text, std::string button = "Restart engine",
                        std::string command = "engine.restart");
  /// Something went wrong in an engine that may be restarted for it; that it happened stays true.
  void add_engine_fault(std::string text);
  void dismiss_banner(int id);
  /// A new engine was started: errors that there was none go, faults of the last one lose their button.
  void engine_restarted();
  void log(std::string line);
  const std::deque<std::string>& log_lines() const { return log_; }
  /// A short message that the status line shows for some seconds, and no longer than `holds` says that it is so.
  void notify(std::string text, std::function<bool()> holds = {});
  /// Why something was not done: a notice, or a banner, which can be opened, where that would be cut.
  void refuse(std::string text);
  const std::string& notice() const { return notice_; }
  /// It was said within the last seconds.
  bool notice_is_fresh() const { return notice_is_fresh_; }
  /// A notice has its time: a window that waits for something to happen would show it until then.
  void poll();

 private:
  Revision& revision_;
  std::vector<Banner> banners_;
  int next_banner_id_ = 1;
  std::deque<std::string> log_;
  std::string notice_;
  bool notice_is_fresh_ = false;
  std::function<bool()> notice_holds_;
  std::chrono::steady_clock::time_point notice_time_{};
};

}  // namespace kvscope::app
