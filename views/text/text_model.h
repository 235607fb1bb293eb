#pragma once
// A text that is being edited: caret, selection, undo. Knows no lines, no fonts, no keys; text_layout.h and text_editor.h
// do.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvscope::views {

/// `removed` bytes at `at` gave way to `inserted` others.
struct TextEdit {
  std::size_t at = 0, removed = 0, inserted = 0;
};

/// Offsets are bytes and stand between characters as one sees them: before a letter, never between it and its accent.
/// The text may hold bytes that are not UTF-8, each a separate character; what is inserted is UTF-8.
class TextModel {
 public:
  enum class Lines : std::uint8_t { many, one };
  explicit TextModel(Lines lines = Lines::many) : lines_(lines) {}

  const std::string& text() const { return text_; }
  std::size_t caret() const { return caret_; }
  std::size_t anchor() const { return anchor_; }  // the selection's other end; the caret, if nothing is selected
  std::pair<std::size_t, std::size_t> selection() const;
  std::string_view selected() const;
  /// Changes since the last call, in order.
  std::vector<TextEdit> take_edits() { return std::exchange(edits_, {}); }

  /// Another text: forgets what could be undone. The caret stays where it was, as far as that is there.
  void set_text(std::string text);

  // What a hand does. All but undo() and redo() can be undone; typing a word is one step.
  /// In place of the selection. CR LF and CR become LF, bytes that are not UTF-8 U+FFFD, other control characters but
  /// the tab are dropped; in a text of one line LF becomes a blank.
  void insert(std::string_view utf8);
  void erase_left();  // the selection, or one character
  void erase_right();
  void erase_word_left();  // the selection, or up to where move_word() goes
  void erase_word_right();
  bool undo();
  bool redo();
  bool can_undo() const { return !undo_.empty(); }
  bool can_redo() const { return !redo_.empty(); }

  void place(std::size_t at, bool select);  // at: brought to the character that it falls in
  void move_left(bool select);              // from a selection to its end, unless `select`
  void move_right(bool select);
  void move_word_left(bool select);
  void move_word_right(bool select);
  void select_all();
  void select_word(std::size_t at);
  void select_paragraph(std::size_t at);  // with its line end

 private:
  enum class Kind : std::uint8_t { other, typing, erasing };
  struct Step {
    std::size_t at;
    std::string removed, inserted;
    std::size_t caret, anchor;  // before it
    Kind kind;
    bool open;  // what is done next may join it
    std::size_t bytes() const { return removed.size() + inserted.size(); }
  };

  void replace(std::size_t from, std::size_t to, std::string with, Kind kind);
  bool joins(std::size_t from, std::size_t to, std::string_view with, Kind kind) const;
  void change(std::size_t at, std::size_t removed, std::string_view with);
  std::size_t behind_character(std::size_t at) const;
  std::string cleaned(std::string_view utf8) const;

  Lines lines_;
  std::string text_;
  std::size_t caret_ = 0, anchor_ = 0;
  std::deque<Step> undo_, redo_;
  std::size_t undo_bytes_ = 0;
  std::vector<TextEdit> edits_;
};

/// The character that begins at `at` ends there; accents, joiners and what they join belong to it. at < text.size().
std::size_t next_character(std::string_view text, std::size_t at);
/// Where the character before `at` begins. at > 0.
std::size_t previous_character(std::string_view text, std::size_t at);

}  // namespace kvscope::views
