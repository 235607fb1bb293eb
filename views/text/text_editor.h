#pragma once
// A text that one edits, or reads and copies from: wrapped, with the caret where one clicks. Dear ImGui's own does not wrap
// and loses keys that are tapped between two frames.

#include <string>
#include <string_view>

#include "views/frame/view_services.h"
#include "views/text/text_editing.h"
#include "views/text/text_font.h"

struct ImRect;

namespace kvscope::views {

/// How an editor is drawn this time.
struct TextEditorLook {
  /// Its item in the registry, a literal: "prompt.text". Lines in sight are "prompt.text.0", "prompt.text.1", ... counted from
  /// the text's first.
  const char* item = "text";
  ImVec2 size = {0, 0};   // as ImGui::BeginChild() has it; a height of 0 is one line's
  std::string_view hint;  // in its place while there is no text
  bool read_only = false;
  bool focus = false;   // takes the keyboard
  bool follow = false;  // stays at the end while the text grows, unless one has scrolled up
};

/// Draws what it holds with the font that is current. While it has the keyboard, io.WantTextInput is true; what was typed
/// comes from services.typed.
class TextEditor {
 public:
  explicit TextEditor(const ViewServices& services, TextModel::Lines lines = TextModel::Lines::many);
  TextEditor(const TextEditor&) = delete;
  TextEditor& operator=(const TextEditor&) = delete;

  const std::string& text() const { return editing_.text(); }
  /// From outside; forgets what could be undone if it is another text.
  void set_text(const std::string& text) {
    if (text != editing_.text()) editing_.set_text(text);
  }
  /// The next item. True: a hand changed the text.
  bool draw(const TextEditorLook& look);
  bool focused() const { return focused_; }
  /// While it was drawn last undo was pressed in an empty text, redo in any, and it had nothing of its own: what lies around
  /// it may have.
  enum class Beyond : std::uint8_t { nothing, undo, redo };
  Beyond beyond() const { return beyond_; }
  /// Holds characters that are written from right to left among the lines in sight.
  bool right_to_left() const { return right_to_left_; }
  /// Lines as they were drawn last, as far as they are known.
  std::size_t n_lines() const { return drawn_lines_; }
  float line_height() const { return font_.line_height(); }

 private:
  bool take_focus(const TextEditorLook& look, unsigned id, const ImRect& box, bool entered);
  bool take_keys(const TextEditorLook& look, int page);
  void take_mouse(const ImRect& box);
  bool draw_menu(const TextEditorLook& look);
  void scroll_to_caret(float height);
  void draw_lines(const TextEditorLook& look, const ImRect& box);
  void draw_selection(const TextEditorLook& look, std::size_t line, ImVec2 at) const;
  void draw_caret(ImVec2 origin);
  Clipboard clipboard() const;

  const ViewServices& services_;
  TextModel::Lines lines_;
  TextFont font_;
  TextEditing editing_;
  Beyond beyond_ = Beyond::nothing;
  bool focused_ = false, pressed_ = false, caret_moved_ = false, right_to_left_ = false;
  bool entering_ = false;  // the key that gave it the keyboard is still down
  std::size_t drawn_lines_ = 1;
  float scroll_x_ = 0;    // of one line
  double active_at_ = 0;  // when the caret was last moved, of ImGui's clock
};

}  // namespace kvscope::views
