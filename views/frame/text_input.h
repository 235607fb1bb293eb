#pragma once
// What was typed since the last frame, for the one text editor that has the keyboard.
//
// Dear ImGui 1.86 samples keys once a frame: of two taps between two frames it hears one. So editors of ours read this
// list, which is whole and in order.

#include <limits>
#include <string>
#include <vector>

namespace kvscope::views {

/// A key that was pressed or repeats, or a character that came of one: a letter comes as both.
struct TextEvent {
  std::string key;         // "left", "backspace", "a"; empty for a character
  char32_t character = 0;  // 0 for a key
  bool ctrl = false, shift = false, alt = false;
};

struct TextInput {
  std::vector<TextEvent> events;  // of this frame
  bool focused = false;           // an editor had the keyboard in the frame drawn last
  double redraw_in = never();     // seconds until its caret blinks

  static constexpr double never() { return std::numeric_limits<double>::infinity(); }
  void begin_frame() { focused = false, redraw_in = never(); }
};

}  // namespace kvscope::views
