#pragma once
// Shortcuts as they are pressed on this keyboard: "Shift+7" for "/" on a German one.

#include <map>
#include <string>

#include "app/window/keyboard_layout.h"

namespace kvscope::app {

class ShortcutTexts {
 public:
  explicit ShortcutTexts(const CommandRegistry& commands) : commands_(commands) {}
  void use(const KeyboardLayout& layout);
  /// Of a command, each once, separated by spaces. What this layout cannot press is left out.
  std::string all(const Command& command);
  /// The first of them; empty if there is none.
  std::string first(const Command& command);

 private:
  const std::string& text(const std::string& word);

  const CommandRegistry& commands_;
  KeyboardLayout layout_;
  std::map<std::string, std::string> texts_;  // by the word in the source; forgotten with the layout
};

}  // namespace kvscope::app
