// A random walk through the window: commands by id, clicks and drags on what is drawn, wheels, keys, text, layouts and sizes,
// while engines are slow, fail and die. It goes on living, loses no run, and undoing everything gives the first state. A run
// that a click on a menu took off the list comes back as long as a step leads to it.
//
//   KVSCOPE_WALK=20000 app_tests "[window_walk]"     20,000 is the default; KVSCOPE_SEED another walk, KVSCOPE_WALK_FROM a part of 500 to begin with

#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <optional>
#include <set>

#include "app/command/layouts.h"
#include "app/workspace/undo_history.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/random.h"
#include "tests/app/window_driver.h"
#include "tests/support/slowdown.h"

using namespace kvscope;
using namespace kvscope::test;
using nlohmann::json;

namespace {

constexpr int kCheckEvery = 20, kHistory = static_cast<int>(app::UndoHistory::kSteps);

std::uint64_t number_of(const char* variable, std::uint64_t fallback) {
  const char* value = std::getenv(variable);
  return value ? std::strtoull(value, nullptr, 10) : fallback;
}

/// What would end the walk, write files, or take a run away on purpose.
bool is_left_out(const std::string& id) {
  for (const char* part :
       {"quit", "remove", "session.new", "screenshot", "save", "export", "accept", "overwrite", "trace."}) {
    if (id.find(part) != std::string::npos) return true;
  }
  return false;
}

class Walk {
 public:
  Walk(WindowDriver& window, std::uint64_t seed) : window_(window), random_(seed) {
    const json answer = window_.request({{"query", "commands"}});
    for (const json& command : answer["commands"])
      if (!is_left_out(command["id"])) commands_.push_back(command["id"]);
  }

  void step() {
    const int kind = below(100);
    if (kind < 45) {
      command();
    } else if (kind < 65) {
      click();
    } else if (kind < 75) {
      drag();
    } else if (kind < 82) {
      at_item([&](const std::string& x, const std::string& y) {
        window_.inputs({"mousemove", "--window", "{window}", x, y, "click", below(2) ? "4" : "5"});
      });
    } else if (kind < 94) {
      key();
    } else if (kind < 97) {
      window_.inputs({"type", "--delay", "2", "--args", "1", below(2) ? "seven & 4" : "Oslo\n"});
    } else {
      window_.inputs({"windowsize", "{window}", std::to_string(500 + below(700)), std::to_string(360 + below(400))});
    }
    did("step " + std::to_string(kind));
  }
  /// The last steps, and how the window ended if it did.
  std::string story() const {
    std::string all;
    for (const std::string& step : last_) all += step + "\n";
    return all;
  }

  /// What the window says of itself, and whether it lost a run.
  json check() {
    const json state = window_.state();
    std::set<int> now;
    for (const json& run : state["runs"]) now.insert(run["id"].get<int>());
    const std::set<int> removed_before = std::exchange(removed_, state["removed"].get<std::set<int>>());
    now.insert(removed_.begin(), removed_.end());
    if (state["workspace"]["steps"].get<int>() + kCheckEvery >= kHistory) was_full_ = true;
    for (const int id : seen_) {
      CAPTURE(id, removed_before, was_full_, state["runs"].dump(), state["workspace"].dump(), story());
      CHECK((now.contains(id) || (was_full_ && removed_before.contains(id))));
    }
    seen_ = now;
    // The engine dies now and then; Restart is one of the commands.
    if (const int pid = state["engine_pid"]; pid > 0 && below(12) == 0) ::kill(pid, SIGKILL);
    return state;
  }
  /// Every run that was ever there can be had back.
  bool forgets_nothing() const { return !was_full_; }
  const std::set<int>& removed() const { return removed_; }

 private:
  void did(std::string what) {
    last_.push_back(std::move(what));
    if (last_.size() > 12) last_.pop_front();
  }
  int below(int n) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(n))); }
  template <typename List>
  auto pick(const List& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(std::size(list))))];
  }

  json arguments_of(const std::string& id) {
    static const std::vector<std::string> kPolicies = {"full",
                                                       "streaming:sinks=4,window=12",
                                                       "kvpop:keep=50%",
                                                       "kvpop:budget=70",
                                                       "h2o:keep=30%,window=8",
                                                       "quest:read=25%",
                                                       "tova:budget=20",
                                                       "wg-kv",
                                                       "nonsense:budget=1",
                                                       "random:budget=20,sinks=2,window=6"};
    static const std::vector<std::string> kTexts = {"one two three four five six seven", "", "Tokyo is far.\n\nIs it?",
                                                    "αβγ 東京 🙂"};
    if (id == "policy.set") return {{"policy", pick(kPolicies)}};
    if (id == "prompt.set") return {{"text", pick(kTexts)}, {"chat", below(2) == 0}};
    if (id == "run.max_tokens") return {{"n", below(40)}};
    if (id == "selection.set") return {{"layer", below(8)}, {"kv_head", below(6)}, {"token", below(60) - 1}};
    if (id == "scrub.to") return {{"q", below(60)}};
    if (id == "view.metric") return {{"metric", std::string(pick(metric_list()).name)}};
    if (id == "view.range") return {{"begin", below(30)}, {"end", 20 + below(60)}};
    if (id == "view.show") return {{"view", below(2) ? "run_curves" : "comparison"}};
    if (id == "go.to") return {{"q", below(50)}};
    if (id == "pin.toggle" && below(2)) return {{"layer", below(3)}, {"kv_head", below(3)}, {"token", below(40)}};
    if (id == "pin.go" || id == "pin.note")
      return {{"letter", std::string(1, static_cast<char>('a' + below(9)))}, {"text", pick(kTexts)}};
    if (id == "run.note") return {{"text", pick(kTexts)}};
    if (id == "run.compare") return {{"a", below(6)}, {"b", below(6)}};
    return json::object();
  }

  void command() {
    const std::string id = pick(commands_);
    const json arguments = arguments_of(id);
    did(id + " " + arguments.dump());
    try {
      window_.command(id, arguments);
    } catch (const std::runtime_error&) {
      // Refused: not possible now, or the arguments do not fit. That the window is there, the next question shows.
    }
  }

  json rect_of(const std::string& item) {
    return window_.request({{"query", "item"}, {"id", item}}).value("rect", json());
  }
  std::optional<std::pair<int, int>> middle_of(const std::string& item) {
    const json rect = rect_of(item);
    if (!rect.is_array()) return {};
    const auto middle = [&](int i) { return static_cast<int>(rect[i].get<double>() + rect[i + 2].get<double>() / 2); };
    return std::pair(middle(0), middle(1));
  }
  bool lies_over(const std::string& item, std::pair<int, int> at) {
    const json rect = rect_of(item);
    const auto in = [&](int i, int x) {
      return x >= rect[i].get<double>() && x <= rect[i].get<double>() + rect[i + 2].get<double>();
    };
    return rect.is_array() && in(0, at.first) && in(1, at.second);
  }

  /// The middle of something that is drawn.
  template <typename Do>
  void at_item(Do act) {
    std::vector<std::string> items;
    const json answer = window_.request({{"query", "items"}});
    for (const json& item : answer["items"])
      if (!is_left_out(item)) items.push_back(item);
    if (items.empty()) return;
    const std::string item = pick(items);
    did("at " + item);
    const auto middle = middle_of(item);
    if (!middle) return;
    // A menu may lie over it: Quit at the end of File lies over the list of runs.
    for (const json& other : answer["items"])
      if (is_left_out(other) && lies_over(other, *middle)) return;
    act(std::to_string(middle->first), std::to_string(middle->second));
  }

  void click() {
    at_item([&](const std::string& x, const std::string& y) {
      window_.inputs({"mousemove", "--window", "{window}", x, y, "click", below(8) ? "1" : "3"});
    });
  }

  void drag() {
    at_item([&](const std::string& x, const std::string& y) {
      const std::string button = below(3) ? "1" : "3";
      window_.inputs({"mousemove", "--window", "{window}", x, y, "mousedown", button, "sleep", "0.03", "mousemove",
                      "--window", "{window}", std::to_string(below(1100)), std::to_string(below(700)), "sleep", "0.03",
                      "mouseup", button});
    });
  }

  void key() {
    constexpr const char* kKeys[] = {
        "Escape", "Return", "Tab",    "space",        "Left",   "Right",        "Up",    "Down",
        "Home",   "End",    "F3",     "F5",           "F7",     "F8",           "a",     "d",
        "f",      "t",      "x",      "slash",        "period", "bracketright", "p",     "shift+p",
        "ctrl+k", "ctrl+r", "ctrl+z", "ctrl+shift+z", "ctrl+b", "ctrl+period",  "ctrl+g"};
    const std::string key = pick(kKeys);
    did("key " + key);
    window_.inputs({"key", key});
  }

  WindowDriver& window_;
  Random random_;
  std::vector<std::string> commands_;
  std::set<int> seen_, removed_;  // by a click on a menu that lay over something
  bool was_full_ = false;         // the oldest steps are gone, and with them what they lead to
  std::deque<std::string> last_;
};

/// What Undo answers for.
json undone_part(const json& state) {
  json part = {{"parameters", state["parameters"]}, {"selection", state["selection"]}, {"pins", state["pins"]}};
  for (const char* name :
       {"maximised", "arrangement", "looks", "left", "right", "bottom", "log", "dark", "colours", "zoom"})
    part["ui"][name] = state["ui"][name];
  return part;
}

void close_all(WindowDriver& window) {
  for (int i = 0; i < 4; ++i) window.inputs({"key", "Escape"}), window.frames(2);
  if (window.state()["running"]) {
    try {
      window.command("run.cancel");
    } catch (const std::runtime_error&) {  // it has ended since
    }
  }
  window.wait({{"/running", false}});
}

/// As many steps back as there are. One to a policy whose gate cannot be loaded now is refused in part and goes back all the
/// same; at the end all are refused.
int undo_all(WindowDriver& window) {
  int n = 0;
  for (int refused = 0; n < 1000 && refused < 20;) {
    try {
      window.command("edit.undo");
      ++n, refused = 0;
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  return n;
}

void walk(int n_steps, std::uint64_t seed, const std::string& engine, bool undone) {
  const Xvfb display(1200, 800);
  WindowDriver window(display, {.engine = fake(engine), .words = {"--size", "1100x720"}});
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.frames(3);
  const json first = undone_part(window.state());
  Walk steps(window, seed);
  for (int i = 0; i < n_steps; ++i) {
    CAPTURE(seed, i, engine);
    try {
      steps.step();
    } catch (const std::runtime_error& error) {
      FAIL(error.what() << ": " << window.last_words() << "; its last steps:\n" << steps.story());
    }
    if (i % kCheckEvery == kCheckEvery - 1) REQUIRE_NOTHROW(steps.check());
  }
  close_all(window);
  const json state = steps.check();
  const double longest = state["frame_times"]["longest_ever"];
  CAPTURE(seed, engine, state["frame_times"].dump());
  CHECK(longest < 100 * kSlowdown);  // the window's own work; its thread's processor time
  if (steps.forgets_nothing()) {
    CHECK(undo_all(window) > 0);
    window.frames(3);
    steps.check();
    CHECK(steps.removed().empty());
  }
  if (undone) {
    REQUIRE(steps.forgets_nothing());
    CHECK(undone_part(window.state()).dump(1) == first.dump(1));
  }
  window.command("app.quit");
  const auto quit = std::chrono::steady_clock::now();
  const int code = window.exit_code();
  const std::chrono::duration<double> ended = std::chrono::steady_clock::now() - quit;
  INFO("it ended " << ended.count() << " s after Quit: " << window.last_words());
  CHECK(code == 0);
  CHECK(ended.count() < 5 * kSlowdown);
}

}  // namespace

TEST_CASE("A hundred random steps, and all of them undone, give the first state") {
  if (skip_without_display()) return;
  walk(100, 7, "--slow 5", true);
}

TEST_CASE("A window lives through 20,000 random steps with slow, failing and dying engines", "[.slow][window_walk]") {
  if (skip_without_display()) return;
  const int n = static_cast<int>(number_of("KVSCOPE_WALK", 20000));
  const std::uint64_t seed = number_of("KVSCOPE_SEED", 1);
  constexpr int kAtOnce = 500;
  const int from = static_cast<int>(number_of("KVSCOPE_WALK_FROM", 0));
  for (int done = from * kAtOnce, i = from; done < n; done += kAtOnce, ++i) {
    static const std::string kEngines[] = {"", "--slow 20", "--slow 5", "--die-at-token 12"};
    walk(std::min(kAtOnce, n - done), seed * 1000 + static_cast<std::uint64_t>(i), kEngines[i % 4], false);
  }
}
