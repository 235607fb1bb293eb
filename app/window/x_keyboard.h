#pragma once
// The keyboard's layout as the X server has it. GLFW gives away what a key types alone, and nothing of Shift and AltGr.

#include <memory>
#include <optional>

#include "app/window/keyboard_layout.h"

namespace kvscope::app {

/// A connection of its own, since GLFW's reads the events that say of another layout. It works under Wayland too, where there
/// is an X server beside it.
class XKeyboard {
 public:
  XKeyboard();
  ~XKeyboard();
  /// The layout, if it is another one than at the last call. Without an X server: what GLFW knows.
  std::optional<KeySymbols> take_change();

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
  KeySymbols last_;
};

}  // namespace kvscope::app
