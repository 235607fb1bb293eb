#pragma once
// A GLFW window with an OpenGL 3.3 core context, and the keys typed into it.
//
// Input waits in a queue until the window feeds it to Dear ImGui: a key that is a command's acts between two frames, on
// what the input before it has made.

#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/window/keyboard_layout.h"
#include "app/window/x_keyboard.h"

struct GLFWwindow;

namespace kvscope::app {

/// A key as it was pressed, or the mark that it typed, translated through the keyboard's layout.
struct KeyPress {
  std::string key;  // "k", "[", "space", "left", "f11", "home"; lower case
  bool ctrl = false, shift = false, alt = false;
  std::vector<Shortcut> others;  // what it means besides, if that is nothing: "?" is also "Shift+/"
};

/// What the user's hand did, in GLFW's words.
struct InputEvent {
  enum class Kind : std::uint8_t { key, character, button, move, scroll };
  Kind kind = Kind::key;
  int code = 0;  // GLFW's key or button; the code point of a character
  int scancode = 0, action = 0;
  double x = 0, y = 0;            // of the mouse or the wheel
  std::optional<KeyPress> press;  // what a shortcut may make of it
  bool is_release() const;
  bool is_modifier() const;
  bool is_pointer() const { return kind >= Kind::button; }
};

class GlfwWindow {
 public:
  struct Settings {
    int width = 1600, height = 1000;
    bool visible = true;
    std::string title;
  };
  /// Throws Error (resource): no display, no OpenGL 3.3.
  explicit GlfwWindow(const Settings& settings);
  ~GlfwWindow();
  GlfwWindow(const GlfwWindow&) = delete;
  GlfwWindow& operator=(const GlfwWindow&) = delete;

  GLFWwindow* handle() const { return handle_; }
  std::string description() const;  // "OpenGL 4.5 (Core Profile) Mesa 22.3.6, llvmpipe"
  float content_scale() const;

  /// Installs the callbacks of input; Dear ImGui's back end must install none.
  void install_callbacks();
  bool has_input() const { return !input_.empty(); }
  const InputEvent& next_input() const { return input_.front(); }
  /// Hands it on to Dear ImGui, a key with the character that it types.
  void feed_input();
  /// As the last key or frame had it; the revision changes with it.
  const KeyboardLayout& layout() const { return layout_; }
  int layout_revision() const { return layout_revision_; }
  void follow_layout();
  std::vector<std::string> take_dropped_files();
  /// Whether the user's hand was at the window since the last call: a key, the mouse, a new size or focus.
  bool take_touch();

  /// The frame that was drawn last, before it is swapped: rows from top to bottom, RGBA.
  std::vector<unsigned char> read_pixels(int& width, int& height) const;
  void clear(float r, float g, float b) const;

 private:
  static void on_key(GLFWwindow* window, int key, int scancode, int action, int mods);
  static void on_char(GLFWwindow* window, unsigned int code_point);
  static void on_button(GLFWwindow* window, int button, int action, int mods);
  static void on_scroll(GLFWwindow* window, double x, double y);
  static void on_focus(GLFWwindow* window, int focused);
  static void on_move(GLFWwindow* window, double x, double y);
  static void on_enter(GLFWwindow* window, int entered);
  static void on_drop(GLFWwindow* window, int count, const char** paths);
  static GlfwWindow& touch(GLFWwindow* window);
  template <typename... Ignored>
  static void on_touch(GLFWwindow* window, Ignored...) {
    touch(window);
  }

  void feed(const InputEvent& event);
  void feed_key(const InputEvent& event);
  void press(InputEvent& event, int mods);

  GLFWwindow* handle_ = nullptr;
  std::deque<InputEvent> input_;
  std::bitset<8> modifiers_;    // that Dear ImGui was told are down, from Shift on the left
  std::map<int, int> pressed_;  // GLFW's key: Dear ImGui's, that it was told is down
  XKeyboard keyboard_;
  KeyboardLayout layout_;
  int layout_revision_ = 0;
  PrintableKey press_;      // the last one
  bool right_alt_ = false;  // is down
  std::vector<std::string> dropped_;
  bool touched_ = true;  // a new window is looked at
};

}  // namespace kvscope::app
