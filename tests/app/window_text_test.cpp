// Text in the real window: typed fast, placed by the mouse, answered, copied.

#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/app/window_driver.h"

using namespace kvscope;
using nlohmann::json;
using test::fake;
using test::WindowDriver;
using test::Xvfb;

namespace {

struct Desk {
  Desk() : window(display, {.engine = fake()}) {
    window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
    window.command("prompt.set", {{"text", text}});
    window.frames(2);
  }
  std::string prompt() { return window.state()["parameters"]["prompt"].get<std::string>(); }
  /// Where the mouse goes within an item.
  std::vector<std::string> to(const std::string& item, double share, double y) {
    const auto r = window.rect(item);
    return {"mousemove", "--window", "{window}", std::to_string(static_cast<int>(r[0] + r[2] * share)),
            std::to_string(static_cast<int>(r[1] + y))};
  }
  /// All in one breath: what xdotool sends without waiting for a frame.
  void give(std::vector<std::string> words) {
    ::kill(window.pid(), SIGSTOP);  // all of it between two frames
    const bool given = window.inputs(std::move(words));
    ::kill(window.pid(), SIGCONT);
    REQUIRE(given);
    window.wait({{"/ui/input_waits", false}});
    window.frames(2);
  }
  const std::string text =
      "The cache keeps what later tokens attend to, and a policy says what else may go from it, "
      "layer by layer and head by head, until the last answer has been read to its end.";
  Xvfb display;
  WindowDriver window;
};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("A click into the middle of a wrapped line and what is typed at once behind it meet in the text there") {
  if (test::skip_without_display()) return;
  Desk desk;
  // The letters are shortcuts elsewhere: x swaps runs, z maximises.
  desk.give(desk.to("prompt.text", 0.5, 44) +
            std::vector<std::string>{"sleep", "0.2", "click", "1", "type", "--delay", "0", "--args", "1", "xzq"});
  const std::string now = desk.prompt();
  const std::size_t at = now.find("xzq");
  REQUIRE(at != std::string::npos);
  CHECK(at > 60);
  CHECK(at < 150);
  CHECK(now.size() == desk.text.size() + 3);
  CHECK(desk.window.state()["ui"]["maximised"] == "");

  desk.window.key("ctrl+z");
  CHECK(desk.prompt() == desk.text);
  // 40 taps in a third of a second; GLFW takes a second press within a millisecond for an echo of the first.
  std::vector<std::string> taps = {"key", "--delay", "4", "ctrl+End"};
  for (int i = 0; i < 20; ++i) taps.insert(taps.end(), {"BackSpace", "Left"});
  desk.give(taps);
  CHECK(desk.prompt().size() == desk.text.size() - 20);
  desk.window.key("Escape");
  CHECK(desk.window.state()["ui"]["text_input"] == false);
}

TEST_CASE(
    "Select all, cut, type, paste and undo, as fast as keys come, and then the caret blinks without a frame between") {
  if (test::skip_without_display()) return;
  Desk desk;
  desk.window.key("ctrl+p");
  desk.give({"key", "--delay", "4", "ctrl+a", "ctrl+x", "n", "e", "w", "space", "ctrl+v"});
  CHECK(desk.prompt() == "new " + desk.text);
  desk.give({"key", "--delay", "4", "ctrl+z", "ctrl+z", "ctrl+z"});
  CHECK(desk.prompt() == desk.text);
  desk.give({"key", "--delay", "4", "ctrl+shift+z", "ctrl+shift+z"});
  CHECK(desk.prompt() == "new ");

  // Two blinks a second, and a few frames for each question; at 60 a second it would be 60.
  const int before = desk.window.state()["frame"].get<int>();
  REQUIRE(desk.window.inputs({"sleep", "1"}));
  CHECK(desk.window.state()["frame"].get<int>() - before < 20);
}

TEST_CASE("The answer stands there as text, says why it ends, and is copied") {
  if (test::skip_without_display()) return;
  Desk desk;
  WindowDriver& window = desk.window;
  window.command("policy.set", {{"policy", "full"}});
  window.command("run.max_tokens", {{"n", 9}});
  window.key("ctrl+p");
  window.key("ctrl+Return");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.frames(3);
  CHECK(window.text("answer.reason") == "stopped at 9 tokens");
  CHECK(window.state()["ui"]["text_input"] == true);  // the views that came did not take the keyboard
  window.click("answer.copy");
  const std::string answer = window.command("answer.copy").get<std::string>();
  CHECK(answer.size() > 9);
  window.command("prompt.set", {{"text", ""}});
  window.key("ctrl+p");
  window.key("ctrl+v");
  CHECK(desk.prompt() == answer);
  window.command("prompt.set", {{"text", "other words"}});
  window.command("run.max_tokens", {{"n", 5}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.command("run.compare", {{"a", 1}, {"b", 2}});
  window.frames(2);
  CHECK(window.text("answer.reason") == "stopped at 9 tokens");
  window.click("answer.of.1");
  CHECK(window.text("answer.reason") == "stopped at 5 tokens");
}

// They were replacement marks there until the run was shown: of one width all.
TEST_CASE("After a restart the list has the prompts of all runs in their scripts, emoji too") {
  if (test::skip_without_display()) return;
  const Xvfb display;
  const test::TemporaryFolder state;
  const auto repeated = [](const std::string& text) { return text + text + text + text + text + text; };
  {
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    for (const std::string& letter : {std::string("\u05d5"), std::string("\u05e9"), std::string("\U0001F600")}) {
      test::decode_short(window);
      window.command("prompt.set", {{"text", repeated(letter)}});
      window.command("run.start");
      window.wait({{"/running", false}, {"/a/status", "complete"}});
      window.command("run.remove", {{"id", window.state()["a"]["id"].get<int>() - 1}});
    }
    test::decode_short(window);
    window.command("app.quit");
    REQUIRE(window.exit_code() == 0);
  }
  WindowDriver window(display, {.engine = fake(), .state = state.path()});
  window.wait({{"/model", {{"not", nullptr}}}, {"/workspace/restoring", false}});
  REQUIRE(window.state()["runs"].size() == 4);
  const auto width = [&](int run) { return window.rect("run." + std::to_string(2 * run) + ".prompt")[2]; };
  for (int i = 0; i < 100 && width(1) >= width(2); ++i) window.frames(2);  // they come one after the other
  CHECK(width(1) < width(2));                                              // vav and shin
  CHECK(width(3) > width(2));                                              // an emoji, or its number in a frame
}
