#pragma once
// Model and lines of an edited text together: what keys and the mouse mean. Knows no window; text_editor.h draws it.

#include <functional>
#include <optional>
#include <string>

#include "views/frame/text_input.h"
#include "views/text/text_layout.h"
#include "views/text/text_model.h"

namespace kvscope::views {

struct Clipboard {
  std::function<std::string()> get;
  std::function<void(const std::string&)> set;
};

class TextEditing {
 public:
  TextEditing(const Advances& advances, TextModel::Lines lines);

  const TextModel& model() const { return model_; }
  const TextLayout& layout() const { return layout_; }
  const std::string& text() const { return model_.text(); }
  void set_text(std::string text);
  bool can_undo() const { return model_.can_undo(); }
  bool can_redo() const { return model_.can_redo(); }
  /// The width of lines, and whether characters have other widths than before.
  void set_width(float width, bool new_advances);
  void reach_line(std::size_t line) { layout_.reach_line(text(), line); }
  bool extend(std::size_t bytes) { return layout_.extend(text(), bytes); }

  /// left: Escape, and Enter of a text of one line, which give the keyboard back.
  enum class Heard : std::uint8_t { nothing, moved, changed, left };
  /// A key or a character. `page`: lines that are in sight. Read only, nothing is changed but the caret.
  Heard hear(const TextEvent& event, int page, bool read_only, const Clipboard& clipboard);

  /// The mouse at x of a line: one click places the caret, two take the word, three the paragraph; a drag then selects
  /// by characters, words or paragraphs.
  void press(std::size_t line, float x, int clicks, bool select);
  void drag(std::size_t line, float x);

  /// Where the caret is drawn.
  std::size_t caret_line();
  float caret_x();

 private:
  Heard hear_key(const TextEvent& event, int page, const Clipboard& clipboard);
  std::optional<Heard> edit(const TextEvent& event, const Clipboard& clipboard);
  bool move(const TextEvent& event, int page);
  void move_lines(std::ptrdiff_t lines, bool select);
  bool follow_edits();
  void select_around(std::size_t at);

  TextModel::Lines lines_;
  TextModel model_;
  TextLayout layout_;
  bool measured_ = false;  // how wide characters are is known
  bool upstream_ = false;  // the caret is at the end of a line, not at the beginning of the one that goes on from it
  std::optional<float> wanted_x_;  // of the line on which going up or down began
  int clicks_ = 1;
  std::size_t pressed_begin_ = 0, pressed_end_ = 0;  // what the click took
};

}  // namespace kvscope::views
