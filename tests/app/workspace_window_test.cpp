// Undo by mouse and keys in the real window, and what the next window has after a clean end and after kill -9.
//
//   KVSCOPE_KILLS=50 app_tests "[workspace_kills]"     50 is the default; KVSCOPE_SEED another series

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "engine/core/support/random.h"
#include "tests/app/window_driver.h"

using namespace kvscope;
using nlohmann::json;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

namespace {

std::string prompt_of(int words) {
  std::string text;
  for (int i = 0; i < words; ++i) text += " word" + std::to_string(i % 13) + (i % 7 == 0 ? " 42" : "");
  return text;
}

std::uint64_t number_of(const char* variable, std::uint64_t fallback) {
  const char* value = std::getenv(variable);
  return value ? std::strtoull(value, nullptr, 10) : fallback;
}

void load(WindowDriver& window) { window.wait({{"/model", {{"not", nullptr}}}, {"/workspace/restoring", false}}); }

void decode(WindowDriver& window, const std::string& policy, int words = 240) {
  window.command("prompt.set", {{"text", prompt_of(words)}});
  window.command("policy.set", {{"policy", policy}});
  window.command("run.max_tokens", {{"n", 8}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
}

/// What a person finds again.
json found(const json& state) {
  json parameters = state["parameters"];
  parameters.erase("prompt_tokens");
  json ui;
  for (const char* key :
       {"left", "right", "bottom", "log", "dark", "colours", "zoom", "maximised", "arrangement", "looks"})
    ui[key] = state["ui"][key];
  const auto id = [](const json& run) { return run.is_null() ? json() : run["id"]; };
  return {{"parameters", parameters}, {"selection", state["selection"]},
          {"runs", state["runs"]},    {"a", id(state["a"])},
          {"b", id(state["b"])},      {"ui", ui}};
}

}  // namespace

WINDOW_TEST("Keys undo and redo what mouse and keys have done, and what was typed into the prompt as a step") {
  load(window);
  decode(window, "kvpop:keep=40%");
  const auto budget = [&] { return window.state()["parameters"]["policy"].get<std::string>(); };
  const std::string before = budget();
  window.drag("policy.budget", 0.38, 0.30);
  const std::string after = budget();
  REQUIRE(after != before);
  CHECK(window.state()["workspace"]["undo"].get<std::string>().starts_with("budget 40 % to "));
  window.key("ctrl+z");  // the whole drag
  CHECK(budget() == before);
  window.key("ctrl+shift+z");
  CHECK(budget() == after);
  window.key("ctrl+z");
  window.key("ctrl+y");
  CHECK(budget() == after);

  window.drag("split.left", 0.5, 12);  // twelve times its own width to the right
  const auto share = [&] { return window.state()["ui"]["arrangement"]["docked"].value("share", 0.0); };
  const double wide = share();
  CHECK(wide > 0.27);
  window.key("ctrl+z");
  CHECK(share() == 0);  // as wide as its text needs
  window.key("ctrl+shift+z");
  CHECK(share() == wide);

  window.click("prompt.text");
  window.wait({{"/ui/text_input", true}});
  const auto prompt = [&] { return window.state()["parameters"]["prompt"].get<std::string>(); };
  const std::string text = prompt();
  window.type("abc");
  CHECK(prompt().size() == text.size() + 3);
  window.key("ctrl+z");
  window.frames(2);
  CHECK(prompt() == text);
  CHECK(share() == wide);
  CHECK(budget() == after);
  window.key("ctrl+y");
  window.frames(2);
  CHECK(prompt().size() == text.size() + 3);

  window.key("Escape");
  window.wait({{"/ui/text_input", false}});
  const int id = window.state()["a"]["id"];
  window.command("run.remove", {{"id", id}});
  CHECK(window.state()["runs"].empty());
  window.click("button.menu");
  window.click("menu.Edit");
  window.click("menu.edit.undo");
  window.wait({{"/runs/0/id", id}, {"/a/id", id}});
}

TEST_CASE("What follows a run and what is hovered are no steps, and a run that is under way outlives any undo") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 20")});
  load(window);
  window.command("prompt.set", {{"text", prompt_of(100)}});
  window.command("policy.set", {{"policy", "streaming:window=30"}});
  window.command("run.max_tokens", {{"n", 60}});
  window.command("run.start");
  window.wait({{"/a/n_tokens", {{"at_least", 130}}}});
  const int steps = window.state()["workspace"]["steps"];
  const auto strip = window.rect("view.token_strip.maximise");
  window.inputs({"mousemove", "--window", "{window}", std::to_string(static_cast<int>(strip[0] - 60)),
                 std::to_string(static_cast<int>(strip[1] + 80))});
  window.frames(4);
  CHECK(window.state()["workspace"]["steps"] == steps);
  while (!window.state()["workspace"]["undo"].get<std::string>().empty()) window.command("edit.undo");
  window.wait({{"/running", false}, {"/runs/0/status", "complete"}});
  CHECK(window.state()["a"] == nullptr);
  while (!window.state()["workspace"]["redo"].get<std::string>().empty()) window.command("edit.redo");
  CHECK(window.state()["a"]["status"] == "complete");
}

TEST_CASE("After a clean end and after kill -9 the next window has runs, A and B, prompt, policy, layout and theme") {
  if (skip_without_display()) return;
  const Xvfb display;
  const test::TemporaryFolder state;
  json before;
  {
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    load(window);
    CHECK(window.state()["runs"].empty());
    decode(window, "kvpop:keep=40%");
    window.command("policy.set", {{"policy", "streaming:window=50"}});
    window.command("run.decode_again");
    window.wait({{"/running", false}, {"/b/status", "complete"}, {"/b/preview", false}});
    window.command("selection.set", {{"layer", 4}, {"kv_head", 2}, {"token", 33}});
    window.command("scrub.to", {{"q", 120}});
    window.command("view.bottom");
    window.command("view.theme");
    window.command("view.zoom_in");
    window.drag("split.left", 0.5, 8);
    before = found(window.state());
    window.command("app.quit");  // at once: what is not on disk yet is written at the end
    CHECK(window.exit_code() == 0);
  }
  {
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    load(window);
    CHECK(json::diff(before, found(window.state())) == json::array());
    CHECK(window.state()["banners"].empty());
    window.command("run.swap");
    window.command("prompt.set", {{"text", "remember me"}});
    before = found(window.state());
    window.wait({{"/workspace/saved", true}});
    window.kill();
    CHECK(window.exit_code() == -1);
  }
  WindowDriver window(display, {.engine = fake(), .state = state.path()});
  load(window);
  CHECK(json::diff(before, found(window.state())) == json::array());
  CHECK(window.state()["banners"].empty());
  window.command("session.new");
  CHECK(window.state()["runs"].empty());
  CHECK(window.state()["a"] == nullptr);
  window.key("ctrl+z");
  window.wait({{"/runs/1/id", 2}, {"/parameters/prompt", "remember me"}});
}

TEST_CASE("Two windows at once do not share a workspace, and a picture by a script depends on none") {
  if (skip_without_display()) return;
  const Xvfb display;
  const test::TemporaryFolder state;
  WindowDriver first(display, {.engine = fake(), .state = state.path()});
  load(first);
  decode(first, "streaming:window=50", 60);
  first.wait({{"/workspace/saved", true}});
  {
    WindowDriver second(display, {.engine = fake(), .state = state.path()});
    load(second);
    CHECK(second.state()["workspace"]["number"] == 2);
    CHECK(second.state()["runs"].empty());
  }
  CHECK(first.state()["runs"].size() == 1);
  first.command("app.quit");
  CHECK(first.exit_code() == 0);
  const auto before = test::read_text(state / "kvscope/workspace/workspace.json");
  const auto result = test::run(
      {.argv = {test::kvscope().string(), "--engine", fake(), "--screenshot", (state / "one.png").string(), "--exit"},
       .environment = {{"DISPLAY", display.display()},
                       {"WAYLAND_DISPLAY", ""},
                       {"LIBGL_ALWAYS_SOFTWARE", "1"},
                       {"XDG_STATE_HOME", state.path().string()}}});
  CHECK(result.exit_code == 0);
  CHECK(test::read_text(state / "kvscope/workspace/workspace.json") == before);
}

namespace {

/// Windows that are killed one after the other on one workspace.
class Kills {
 public:
  explicit Kills(std::uint64_t seed) : random_(seed) {}

  /// Some changes, a run, and the end at a random moment of it. Each window finds a state that the one before was in, not
  /// older than the last that it said to be on disk, and every run that had ended by then.
  void kill_one() {
    WindowDriver window(display_, {.engine = fake("--slow 2"), .state = state_.path()});
    load(window);
    check_found(found(window.state()), window.pid());
    states_.clear();
    const auto note = [&] { states_.push_back(found(window.state())); };
    note();
    const int n = below(6);
    for (int i = 0; i < n; ++i) {
      change(window);
      note();
      if (below(3)) continue;
      window.wait({{"/workspace/saved", true}});
      states_.erase(states_.begin(), states_.end() - 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(below(1500)));
    ended_.clear();
    const json last = window.state();
    if (last["workspace"]["saved"].get<bool>()) {
      for (const json& run : last["runs"]) {
        if (run["n_tokens"] > 0) ended_.push_back(run);  // one that was refused has nothing to find
      }
    }
    if (below(2)) {  // in the midst of a run
      window.command("run.start");
      std::this_thread::sleep_for(std::chrono::milliseconds(below(600)));
    }
    window.kill();
    CHECK(window.exit_code() == -1);
  }
  void check_last() {
    WindowDriver window(display_, {.engine = fake(), .state = state_.path()});
    load(window);
    check_found(found(window.state()), window.pid());
    CHECK(window.state()["banners"].empty());
  }

 private:
  int below(int n) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(n))); }

  void change(WindowDriver& window) {
    // Never more than are kept.
    if (window.state()["runs"].size() > 9) return void(window.command("run.remove", {{"id", some_run(window)}}));
    switch (below(6)) {
      case 0:
        return void(window.command("prompt.set", {{"text", prompt_of(60 + below(60))}}));
      case 1:
        return void(window.command("policy.set", {{"policy", "streaming:window=" + std::to_string(10 + below(40))}}));
      case 2:
        return void(window.command(below(2) ? "view.left" : "view.theme"));
      case 3:
        if (!window.state()["runs"].empty()) return void(window.command("run.show", {{"id", some_run(window)}}));
        break;
      case 4:
        if (window.state()["runs"].size() > 3) return void(window.command("run.remove", {{"id", some_run(window)}}));
        break;
      default:
        break;
    }
    window.command("run.max_tokens", {{"n", 5 + below(20)}});
    window.command("run.start");
    window.wait({{"/running", false}});
  }
  int some_run(WindowDriver& window) {
    const json runs = window.state()["runs"];
    return runs[random_.below(runs.size())]["id"];
  }
  void check_found(const json& now, pid_t pid) {
    if (states_.empty()) return;
    // Runs beside: one that was cut off is there as far as it had come.
    for (const auto& entry : std::filesystem::recursive_directory_iterator(state_.path())) {
      const std::string name = entry.path().filename().string();
      CAPTURE(name);
      CHECK(name.find("damaged") == std::string::npos);
      const bool half = name.starts_with(".run") && name.find('.' + std::to_string(pid) + '.') == std::string::npos;
      CHECK_FALSE(half);  // of a window that is gone
    }
    for (const json& run : ended_) {
      CAPTURE(run.dump());
      CHECK(std::count(now["runs"].begin(), now["runs"].end(), run) == 1);
    }
    const auto but_runs = [](json state) {
      for (const char* key : {"runs", "a", "b", "selection"}) state.erase(key);
      state["ui"].erase("dark"), state["ui"].erase("colours");  // a file of its own
      return state;
    };
    CAPTURE(now.dump(), states_.back().dump());
    CHECK(std::ranges::any_of(states_, [&](const json& state) { return but_runs(state) == but_runs(now); }));
  }

  Random random_;
  Xvfb display_;
  test::TemporaryFolder state_;
  std::vector<json> states_;  // any of which the next window may find
  std::vector<json> ended_;   // runs that it must find
};

void kill_windows(std::uint64_t n) {
  const std::uint64_t seed = number_of("KVSCOPE_SEED", 20261123);
  CAPTURE(seed);
  Kills kills(seed);
  for (std::uint64_t i = 0; i < n; ++i) {
    CAPTURE(i);
    kills.kill_one();
  }
  kills.check_last();
}

}  // namespace

TEST_CASE("A window that is killed at a random moment costs no run that was saved, and the next one goes on") {
  if (skip_without_display()) return;
  kill_windows(3);
}

TEST_CASE("Random kills of the window cost no run that was saved", "[.slow][workspace_kills]") {
  if (skip_without_display()) return;
  kill_windows(number_of("KVSCOPE_KILLS", 50));
}
