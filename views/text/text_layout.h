#pragma once
// A text in lines of a width: where each begins, which character is at an x, and what an edit changes of it.

#include <cstdint>
#include <string_view>
#include <vector>

#include "views/text/text_model.h"

namespace kvscope::views {

/// How wide characters are. `point` is 0xfffd with `valid` false for a byte that is not UTF-8.
class Advances {
 public:
  virtual ~Advances() = default;
  virtual float advance(char32_t point, bool valid) const = 0;
};

/// Lines break after blanks, around ideographs, and within a word that is wider than a line; blanks at a line's end hang
/// over. Laid out from the top, as far as was asked for: a text of megabytes costs nothing until one goes there.
class TextLayout {
 public:
  explicit TextLayout(const Advances& advances) : advances_(&advances) {}

  /// Forgets all lines. width <= 0: lines end at LF alone.
  void reset(float width);
  /// The text has changed: breaks lines anew from two before the edit until they fall where they fell before.
  void edited(std::string_view text, const TextEdit& edit);
  /// Lays out about so many bytes more; false if there are none.
  bool extend(std::string_view text, std::size_t bytes);
  void reach_offset(std::string_view text, std::size_t at);
  void reach_line(std::string_view text, std::size_t line);

  float width() const { return width_; }
  std::size_t n_lines() const { return begins_.size(); }  // as far as it is laid out; at least 1
  bool complete() const { return complete_; }
  /// n_lines() when complete; before that as many as there would be if it went on like this.
  double estimated_lines(std::string_view text) const;

  // Of lines that are laid out.
  std::size_t begin_of(std::size_t line) const { return begins_[line]; }
  /// Without the LF that ends it.
  std::size_t end_of(std::string_view text, std::size_t line) const;
  bool ends_paragraph(std::string_view text, std::size_t line) const;
  /// An offset where one line goes over into the next is the end of the first if `upstream`.
  std::size_t line_of(std::string_view text, std::size_t at, bool upstream = false) const;
  float x_of(std::string_view text, std::size_t line, std::size_t at) const;
  /// The boundary of characters nearest to x.
  std::size_t offset_at(std::string_view text, std::size_t line, float x) const;

  /// Where x goes after a character that begins at x: tabs reach to the next multiple of four blanks.
  float behind(float x, char32_t point, bool valid) const;

 private:
  std::size_t next_line(std::string_view text, std::size_t begin) const;

  const Advances* advances_;
  float width_ = 0;
  std::vector<std::size_t> begins_{0};
  bool complete_ = false;  // no line begins after the last one
};

}  // namespace kvscope::views
