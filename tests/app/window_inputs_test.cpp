// Random inputs into the real window: keys alone and with modifiers, clicks, double clicks, wheels, drags, text and
// resizes. It answers after each hundred, ends only where it was told to, with 0, and leaves nothing.
//
//   KVSCOPE_INPUTS=100000 app_tests "[window_inputs]"     100,000 is the default; KVSCOPE_SEED another series

#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <optional>

#include "engine/core/support/random.h"
#include "tests/app/window_driver.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

namespace fs = std::filesystem;

// Each frame is drawn by the CPU.
constexpr int kWidth = 1100, kHeight = 720;

std::uint64_t number_of(const char* variable, std::uint64_t fallback) {
  const char* value = std::getenv(variable);
  return value ? std::strtoull(value, nullptr, 10) : fallback;
}

/// One input after the other, in xdotool's words.
class Inputs {
 public:
  explicit Inputs(std::uint64_t seed) : random_(seed) {}

  std::vector<std::string> take(int n) {
    words_.clear();
    for (int i = 0; i < n; ++i) {
      const int kind = below(100);
      if (kind < 40) {
        key();
      } else if (kind < 70) {
        click();
      } else if (kind < 80) {
        move(), add({"click", below(2) ? "4" : "5"});
      } else if (kind < 90) {
        drag();
      } else if (kind < 98) {
        add({"type", "--delay", "2", "--args", "1", text()});  // without it the rest of the words is text, too
      } else {
        add({"windowsize", "{window}", number(40, kWidth + 200), number(30, kHeight + 200)});
      }
      // Some inputs come in one frame, some in frames of their own.
      if (below(3) == 0) add({"sleep", "0.02"});
    }
    return words_;
  }

 private:
  int below(int n) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(n))); }
  std::string number(int least, int most) { return std::to_string(least + below(most - least)); }
  void add(std::initializer_list<std::string> words) { words_.insert(words_.end(), words); }
  void move() { add({"mousemove", "--window", "{window}", number(0, kWidth), number(0, kHeight)}); }

  void key() {
    constexpr const char* kKeys[] = {
        "Escape", "Return", "Tab",      "space",        "BackSpace",  "Delete", "Home", "End", "Prior",  "Next",
        "Left",   "Right",  "Up",       "Down",         "F1",         "F5",     "F11",  "F12", "period", "comma",
        "slash",  "plus",   "minus",    "equal",        "0",          "1",      "5",    "9",   "Insert", "Menu",
        "grave",  "at",     "KP_Enter", "bracketright", "bracketleft"};
    constexpr const char* kModifiers[] = {"", "", "", "ctrl+", "shift+", "ctrl+shift+", "alt+"};
    const bool letter = below(2);
    const std::string name =
        letter ? std::string(1, static_cast<char>('a' + below(26))) : kKeys[below(static_cast<int>(std::size(kKeys)))];
    add({"key", kModifiers[below(static_cast<int>(std::size(kModifiers)))] + name});
  }

  void click() {
    const std::string button = below(5) ? "1" : number(1, 4);
    move();
    for (int i = below(6) ? 1 : 2; i > 0; --i) add({"mousedown", button, "sleep", "0.01", "mouseup", button});
  }

  void drag() {
    move();
    add({"sleep", "0.01", "mousedown", "1", "sleep", "0.01"});
    for (int i = below(5); i >= 0; --i) move();
    add({"sleep", "0.01", "mouseup", "1"});
  }

  /// No slash: what is typed into a field for a file stays in the test's folder.
  std::string text() {
    constexpr const char* kTexts[] = {"kvpop:keep=40%",
                                      "streaming:sinks=1,window=2",
                                      "0",
                                      "1e-9",
                                      "1e99",
                                      "NaN",
                                      "a.h5",
                                      "x.svg",
                                      " ",
                                      "%s",
                                      "é€",
                                      "{%"};
    if (below(2)) return kTexts[below(static_cast<int>(std::size(kTexts)))];
    std::string text;
    for (int i = below(8); i >= 0; --i) text += static_cast<char>(below(9) ? 'a' + below(26) : '0' + below(10));
    return text;
  }

  Random random_;
  std::vector<std::string> words_;
};

/// Resident, in MiB.
long memory_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  long all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096 >> 20;
}

bool is_gone(pid_t pid) {
  for (int i = 0; i < 100 && ::kill(pid, 0) == 0; ++i) ::usleep(50000);
  return ::kill(pid, 0) != 0;
}

/// As AtomicFile and a trace's writers name what is not whole yet.
bool is_half_written(const std::string& name) {
  return name.starts_with(".kvscope-") ||
         (name.starts_with('.') && (name.ends_with(".live") || name.ends_with(".new") || name.ends_with(".packed")));
}

class Trial {
 public:
  explicit Trial(std::uint64_t seed) : inputs_(seed) { start(); }

  /// One batch; the window answers after it, or was told to end.
  void go(int n) {
    const bool given = window_->inputs(inputs_.take(n));
    try {
      const nlohmann::json state = window_->state();
      if (state["engine_pid"].is_number()) engine_ = state["engine_pid"].get<pid_t>();
      most_memory_ = std::max(most_memory_, memory_of(window_->pid()));
      CHECK(given);
    } catch (const std::runtime_error& error) {
      INFO(error.what() << ", all inputs given: " << given << "; " << window_->last_words());
      REQUIRE(window_->exit_code() == 0);
      check_gone();
      ++ends_;
      start();
    }
  }
  void end() {
    window_->command("app.quit");
    CHECK(window_->exit_code() == 0);
    check_gone();
    for (const auto& entry : fs::recursive_directory_iterator(state_.path())) {
      const std::string name = entry.path().filename().string();
      CAPTURE(name);
      CHECK_FALSE((name.starts_with('.') || name.find("damaged") != std::string::npos));
    }
  }
  int ends() const { return ends_; }
  long most_memory() const { return most_memory_; }

 private:
  void start() {
    window_.reset();
    window_.emplace(display_, WindowDriver::Options{.engine = fake(), .state = state_.path()});
    window_->wait({{"/model", {{"not", nullptr}}}});
    window_->command("run.max_tokens", {{"n", 8}});
    window_->command("policy.set", {{"policy", "full"}});  // what was typed before may be one that cannot run
    window_->command("run.start");
  }
  /// No file that is half written, no engine.
  void check_gone() const {
    CHECK((engine_ <= 0 || is_gone(engine_)));
    for (const auto& entry : fs::directory_iterator(window_->folder())) {
      const std::string name = entry.path().filename().string();
      CAPTURE(name);
      // Keys may have taken all but the ending from an export's proposed name: ".pdf" is whole.
      CHECK_FALSE(is_half_written(name));
      CHECK(name != "control");
    }
  }

  Xvfb display_{kWidth, kHeight};
  TemporaryFolder state_;
  Inputs inputs_;
  std::optional<WindowDriver> window_;
  pid_t engine_ = -1;
  int ends_ = 0;
  long most_memory_ = 0;
};

void give_inputs(std::uint64_t n) {
  const std::uint64_t seed = number_of("KVSCOPE_SEED", 20261122);
  CAPTURE(seed);
  Trial trial(seed);
  for (std::uint64_t done = 0; done < n; done += 100) {
    CAPTURE(done);
    trial.go(100);
  }
  trial.end();
  if (n > 1000)
    WARN(n << " inputs, seed " << seed << ": the window was told to end " << trial.ends() << " times, and had "
           << trial.most_memory() << " MiB at most");
}

}  // namespace

TEST_CASE("300 random inputs neither fell nor hang the window, and it ends in order") {
  if (skip_without_display()) return;
  give_inputs(300);
}

TEST_CASE("Random inputs neither fell nor hang the window, and it ends in order", "[.slow][window_inputs]") {
  if (skip_without_display()) return;
  give_inputs(number_of("KVSCOPE_INPUTS", 100000));
}
