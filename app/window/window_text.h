#pragma once
// What was typed for the editor that has the keyboard.

#include "app/window/glfw_window.h"
#include "views/frame/text_input.h"

namespace kvscope::app {

class WindowText {
 public:
  views::TextInput& typed() { return typed_; }
  /// Takes from the window what the next frame may hear, or leaves all of it for a later one. False: nothing is left.
  bool begin_frame(GlfwWindow& window, bool hold) {
    const bool more = window.deliver_input(typed_, hold);
    typed_.begin_frame();
    return more;
  }

 private:
  views::TextInput typed_;
};

}  // namespace kvscope::app
