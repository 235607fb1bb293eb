#pragma once
// A GLFW window with an OpenGL 3.3 core context, and the keys typed into it.
//
// What is typed and clicked reaches Dear ImGui through our own queue (input_queue.h), and the keys of commands through
// another.

#include <bitset>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "app/window/input_queue.h"
#include "app/window/keyboard_layout.h"
#include "app/window/x_keyboard.h"
#include "views/frame/text_input.h"

struct GLFWwindow;

namespace kvscope::app {

/// A key as it was pressed, or the mark that it typed, translated through the keyboard's layout.
struct KeyPress {
  std::string key;  // "k", "[", "space", "left", "f11", "home"; lower case
  bool ctrl = false, shift = false, alt = false;
  std::uint64_t number = 0;      // of all keys, from 1
  std::vector<Shortcut> others;  // what it means besides, if that is nothing: "?" is also "Shift+/"
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
  /// Tells Dear ImGui what its next frame may hear, and lists what of it was typed in `typed`: if an editor of ours has the
  /// keyboard, all of it. `hold`: what is let go alone. False: nothing is left for the frame after it.
  bool deliver_input(views::TextInput& typed, bool hold);
  /// The presses among what the next frame may hear. `listed`: an editor of ours has the keyboard.
  std::vector<KeyPress> take_keys(bool listed);
  /// Gives `rest` back: the next frame hears nothing after `press`.
  void hold_behind(const KeyPress& press, std::vector<KeyPress> rest);
  bool holds_keys() const { return !keys_.empty(); }
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

  void note_modifier(const InputEvent& event);
  void press(InputEvent& event, int key);
  std::uint64_t add_press(const std::vector<Shortcut>& meanings);  // the number that it got; 0 for none

  GLFWwindow* handle_ = nullptr;
  InputQueue input_;
  std::bitset<8> modifiers_;  // that Dear ImGui was told are down, from Shift on the left
  std::vector<KeyPress> keys_;
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t n_keys_ = 0, keys_delivered_ = 0, last_key_ = kNoLimit;  // as KeyPress::number
  XKeyboard keyboard_;
  KeyboardLayout layout_;
  int layout_revision_ = 0;
  PrintableKey press_;              // the last one
  std::uint64_t press_number_ = 0;  // of which KeyPress came; 0: none
  bool right_alt_ = false;          // is down
  std::vector<std::string> dropped_;
  bool touched_ = true;  // a new window is looked at
};

}  // namespace kvscope::app
