// What is typed faster than frames are drawn reaches Dear ImGui in parts that it can tell apart, in order, and all of it.

#include "app/window/input_queue.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <catch2/catch.hpp>
#include <string>

using namespace kvscope::app;
using Kind = InputEvent::Kind;

namespace {

void tap(InputQueue& queue, int key, int mods = 0) {
  for (const int action : {GLFW_PRESS, GLFW_RELEASE})
    queue.push({.kind = Kind::key, .code = key, .action = action, .mods = mods});
}

/// As a keyboard types it: key, character, key.
void type(InputQueue& queue, const std::string& text) {
  for (const char c : text) {
    queue.push({.kind = Kind::key, .code = c, .action = GLFW_PRESS});
    queue.push({.kind = Kind::character, .code = c});
    queue.push({.kind = Kind::key, .code = c, .action = GLFW_RELEASE});
  }
}

/// The frames, each as its characters, "<" and ">" for the press and release of another key, "*" and "." of a button.
std::vector<std::string> frames_of(InputQueue& queue) {
  std::vector<std::string> frames;
  while (!queue.empty()) {
    std::string& frame = frames.emplace_back();
    for (const InputEvent& event : queue.take_frame()) {
      const bool down = event.action == GLFW_PRESS;
      if (event.kind == Kind::character) frame += static_cast<char>(event.code);
      if (event.kind == Kind::key && event.code >= GLFW_KEY_ESCAPE) frame += down ? '<' : '>';
      if (event.kind == Kind::button) frame += down ? '*' : '.';
    }
    REQUIRE(frames.size() < 1000);
  }
  return frames;
}

}  // namespace

TEST_CASE("Text that is typed within a frame comes in one") {
  InputQueue queue;
  type(queue, "Hello.");
  CHECK(frames_of(queue) == std::vector<std::string>{"Hello."});
}

TEST_CASE("A key that is pressed and let go within a frame is down for one and up in the next") {
  InputQueue queue;
  tap(queue, GLFW_KEY_ENTER);
  tap(queue, GLFW_KEY_ENTER);
  CHECK(frames_of(queue) == std::vector<std::string>{"<", ">", "<", ">"});
}

TEST_CASE("Home and text stay in the order in which they were typed") {
  InputQueue queue;
  queue.push({.kind = Kind::key, .code = GLFW_KEY_LEFT_CONTROL, .action = GLFW_PRESS});
  tap(queue, GLFW_KEY_HOME, GLFW_MOD_CONTROL);
  queue.push({.kind = Kind::key, .code = GLFW_KEY_LEFT_CONTROL, .action = GLFW_RELEASE});
  type(queue, "one");
  tap(queue, GLFW_KEY_END);
  type(queue, "two");
  CHECK(frames_of(queue) == std::vector<std::string>{"<<", ">>one", "<", ">two"});
}

TEST_CASE("Ctrl is held to Home though both are let go before the next frame, Ctrl first") {
  InputQueue queue;
  queue.push({.kind = Kind::key, .code = GLFW_KEY_LEFT_CONTROL, .action = GLFW_PRESS});
  CHECK(queue.take_frame().size() == 1);
  queue.push({.kind = Kind::key, .code = GLFW_KEY_HOME, .action = GLFW_PRESS, .mods = GLFW_MOD_CONTROL});
  queue.push({.kind = Kind::key, .code = GLFW_KEY_LEFT_CONTROL, .action = GLFW_RELEASE, .mods = GLFW_MOD_CONTROL});
  queue.push({.kind = Kind::key, .code = GLFW_KEY_HOME, .action = GLFW_RELEASE});
  CHECK(frames_of(queue) == std::vector<std::string>{"<", ">>"});
}

TEST_CASE("Both clicks of a double click within a frame are heard") {
  InputQueue queue;
  for (const int action : {GLFW_PRESS, GLFW_RELEASE, GLFW_PRESS, GLFW_RELEASE})
    queue.push({.kind = Kind::button, .code = GLFW_MOUSE_BUTTON_LEFT, .action = action});
  CHECK(frames_of(queue) == std::vector<std::string>{"*", ".", "*", "."});
}

TEST_CASE("A shortcut's letter is a tap, though it has no character") {
  InputQueue queue;
  queue.push({.kind = Kind::key, .code = GLFW_KEY_LEFT_CONTROL, .action = GLFW_PRESS});
  tap(queue, GLFW_KEY_A, GLFW_MOD_CONTROL);
  tap(queue, GLFW_KEY_A, GLFW_MOD_CONTROL);
  std::vector<std::size_t> sizes;
  while (!queue.empty()) sizes.push_back(queue.take_frame().size());
  CHECK(sizes == std::vector<std::size_t>{2, 1, 1, 1});
}

TEST_CASE("Who reads keys as a list gets all of them in one frame, but none that was pressed behind a click") {
  InputQueue queue;
  for (int i = 0; i < 10; ++i) tap(queue, GLFW_KEY_BACKSPACE), type(queue, "a");
  CHECK(queue.take_frame(true).size() == 50);
  CHECK(queue.empty());
  type(queue, "a");
  queue.push({.kind = Kind::button, .code = GLFW_MOUSE_BUTTON_LEFT, .action = GLFW_PRESS});
  type(queue, "bc");
  for (const bool listed : {true, false}) {
    InputQueue copy = queue;
    CHECK(copy.take_frame(listed).size() == 4);
    CHECK(copy.take_frame(listed).size() == 6);
  }
}

TEST_CASE("A frame takes nothing behind a key that hands the keyboard on, but the character that came of it") {
  InputQueue queue;
  std::uint64_t number = 0;
  const auto press = [&](char c) {
    queue.push({.kind = Kind::key, .code = c, .action = GLFW_PRESS, .name = {c}, .number = ++number});
    queue.push({.kind = Kind::character, .code = c});
    queue.push({.kind = Kind::key, .code = c, .action = GLFW_RELEASE});
  };
  for (const char c : std::string("/mo")) press(c);
  CHECK(queue.last_key_of_frame(false) == 3);
  const auto text_of = [](const std::vector<InputEvent>& events) {
    std::string text;
    for (const InputEvent& event : events)
      if (event.kind == Kind::character) text += static_cast<char>(event.code);
    return text;
  };
  CHECK(text_of(queue.take_frame(false, 1)) == "/");
  CHECK(queue.take_releases().empty());  // 'm' is next
  CHECK(text_of(queue.take_frame(false)) == "mo");
  CHECK(queue.last_key_of_frame(false) == 0);
  queue.push({.kind = Kind::key, .code = 'x', .action = GLFW_RELEASE});
  queue.push({.kind = Kind::key, .code = 'y', .action = GLFW_PRESS, .name = "y", .number = ++number});
  CHECK(queue.take_releases().size() == 1);  // what stays down would repeat
  CHECK(queue.take_frame(false).size() == 1);
  // A tap that would not be heard beside another waits, and so does what comes behind it.
  tap(queue, GLFW_KEY_RIGHT);
  queue.push({.kind = Kind::key, .code = GLFW_KEY_RIGHT, .action = GLFW_PRESS, .name = "right", .number = 9});
  CHECK(queue.last_key_of_frame(false) == 0);
}

TEST_CASE("A mark's press is its character's: what is typed behind it waits, but for the next key alone") {
  InputQueue queue;
  std::uint64_t number = 0;
  for (const char c : std::string("/m.")) {
    const bool mark = c != 'm';
    queue.push({.kind = Kind::key, .code = c, .action = GLFW_PRESS, .number = mark ? 0 : ++number});
    queue.push({.kind = Kind::character, .code = c, .number = mark ? ++number : 0});
    queue.push({.kind = Kind::key, .code = c, .action = GLFW_RELEASE});
  }
  CHECK(queue.last_key_of_frame(false) == 3);
  CHECK(queue.take_frame(false, 1).size() == 3);  // '/' with its character
  CHECK(queue.take_frame(false, 2).size() == 4);  // 'm' with its character, and the key of '.'
  CHECK(queue.take_frame(false).size() == 2);
}
