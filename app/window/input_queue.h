#pragma once
// What a hand did, in the order in which it did it, handed on in parts that one frame can tell apart.
//
// Dear ImGui 1.86 samples keys and buttons once a frame: a tap that begins and ends between two frames is lost to it, and
// of Home and a letter it inserts the letter first. On a slow frame that is every quick typist's text.

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

namespace kvscope::app {

struct InputEvent {
  enum class Kind : std::uint8_t { key, character, button, scroll };
  Kind kind = Kind::key;
  int code = 0;                            // GLFW's key or button; the code point of a character
  int scancode = 0, action = 0, mods = 0;  // as GLFW has them
  double x = 0, y = 0;                     // of the wheel
  std::string name;                        // of a key that means something to a text: "left", or its letter
  std::uint64_t number = 0;  // of the KeyPress that came of this key, or of this character if it is a mark
};

class InputQueue {
 public:
  void push(const InputEvent& event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }
  /// The longest beginning in which no key or button whose taps matter changes twice, no such key's press stands beside
  /// characters or before a change of Ctrl, Shift, Alt, and no key or character comes behind a button: whom it is for is
  /// known when the click was drawn. `listed`: who has the keyboard reads keys as a list, and none of them is held back
  /// for another. Never empty unless the queue is.
  /// `last_key`: number of a key press after which none is taken.
  std::vector<InputEvent> take_frame(bool listed = false,
                                     std::uint64_t last_key = std::numeric_limits<std::uint64_t>::max());
  /// What was let go before anything else was done: a key that stayed down would repeat.
  std::vector<InputEvent> take_releases();
  /// The number of the last key of what take_frame() would take; 0 if there is none in it.
  std::uint64_t last_key_of_frame(bool listed) const;

 private:
  std::deque<InputEvent> events_;
};

}  // namespace kvscope::app
