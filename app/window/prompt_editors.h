#pragma once
// The editors of the left panel, which hold caret, selection and undo from frame to frame.

#include "views/text/text_editor.h"

namespace kvscope::app {

struct PromptEditors {
  explicit PromptEditors(const views::ViewServices& services) : prompt(services) {}
  views::TextEditor prompt;
};

}  // namespace kvscope::app
