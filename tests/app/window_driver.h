#pragma once
// The real window under its own Xvfb: commands over the control socket, mouse and keys through the X server.

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/support/child_process.h"
#include "tests/app/process.h"

namespace kvscope::test {

/// Skips the test, with the reason, where something that windows need is not installed.
bool skip_without_display();
/// The command of the fake engine.
std::string fake(const std::string& options = "");

/// A display of our own, ended with the object.
class Xvfb {
 public:
  explicit Xvfb(int width = 1600, int height = 1000);
  const std::string& display() const { return display_; }  // ":99"

 private:
  std::unique_ptr<ChildProcess> process_;
  std::string display_;
};

class WindowDriver {
 public:
  struct Options {
    std::string engine;              // empty: the real one
    std::vector<std::string> words;  // further arguments
    std::filesystem::path state;     // XDG_STATE_HOME; empty: one of its own
    std::filesystem::path cache;     // XDG_CACHE_HOME; empty: one of its own, without models
    bool first_run = false;          // a first window shows the recorded run; else it starts without one
  };
  WindowDriver(const Xvfb& display, const Options& options);
  ~WindowDriver();

  /// One request and its answer; throws std::runtime_error with the window's words if it is not ok.
  nlohmann::json request(const nlohmann::json& request);
  nlohmann::json command(const std::string& id, const nlohmann::json& args = nlohmann::json::object());
  nlohmann::json state();
  void wait(const nlohmann::json& until, double timeout = 60);  // a machine under load is slow
  /// Waits until `n` more frames were drawn.
  void frames(int n);
  /// What is written there; empty if nothing is.
  std::string text(const std::string& item);
  /// The same once `part` stands in it, or after 200 frames.
  std::string text_soon(const std::string& item, const std::string& part);
  /// The rectangle of an item [x, y, w, h]; waits for it to be drawn.
  std::vector<double> rect(const std::string& item);

  void click(const std::string& item);
  /// From a share of the item's width to another one, with the button held.
  void drag(const std::string& item, double from, double to);
  /// ends: the window does not answer afterwards, because the keys close it.
  void key(const std::string& keys,
           bool ends = false);  // as xdotool names them, one after the other: "ctrl+r", "period period"
  /// One key with modifiers, held until a frame has seen it: ImGui 1.86 samples keys in its fields once a frame.
  void hold(const std::string& modifier, const std::string& key);
  void type(const std::string& text);
  /// xdotool's words, many inputs at once; "{window}" is the window's id. False: it failed, as when the window is gone.
  bool inputs(std::vector<std::string> words);

  pid_t pid() const { return process_->pid(); }
  void kill();
  /// The exit code once it has ended; -1 if it has not within 15 s or was killed.
  int exit_code();
  /// How it ended, with what it said on standard error: for the message of a test that failed.
  std::string last_words();
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  void xdotool(const std::vector<std::string>& words);
  std::string read_line(double timeout);

  TemporaryFolder folder_;
  std::string display_, window_id_;
  std::unique_ptr<ChildProcess> process_;
  int socket_ = -1;
  std::string buffer_;
};

/// Waits for the fake engine's model; ten words and six tokens become run A.
void decode_short(WindowDriver& window, const char* policy = "full");

}  // namespace kvscope::test

/// A test case whose body has a fresh `window` with the fake engine on a `display`; skipped where windows cannot be.
#define WINDOW_TEST_OF(body, ...)                                                            \
  static void body(kvscope::test::WindowDriver& window, const kvscope::test::Xvfb& display); \
  TEST_CASE(__VA_ARGS__) {                                                                   \
    if (kvscope::test::skip_without_display()) return;                                       \
    const kvscope::test::Xvfb display;                                                       \
    kvscope::test::WindowDriver window(display, {.engine = kvscope::test::fake()});          \
    body(window, display);                                                                   \
  }                                                                                          \
  static void body(kvscope::test::WindowDriver& window, [[maybe_unused]] const kvscope::test::Xvfb& display)
#define WINDOW_TEST(...) WINDOW_TEST_OF(INTERNAL_CATCH_UNIQUE_NAME(window_test_), __VA_ARGS__)
