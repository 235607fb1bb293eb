#pragma once
// Two answers as one flowing text: tokens of both are plain, tokens of one run have its colour, A's struck out and B's underlined.

#include <string>
#include <vector>

#include "views/figure/answer_difference.h"
#include "views/figure/figure_builder.h"

namespace kvscope::views {

/// The joint text in lines of a width. A token with a line end ends its line; else a line ends where it is full. Lines are found
/// from the last line end before them, so that a place in a long text costs no more than one in a short one.
class AnswerLines {
 public:
  struct Line {
    int begin = 0, end = 0;  // tokens of the joint text
    bool operator==(const Line&) const = default;
  };
  AnswerLines(const RunRecord& a, const RunRecord& b, const ComparedAnswers& answers, double width, double size);

  int n_tokens() const { return static_cast<int>(answers_.text.size()); }
  /// The line that has the token, and those after it, `most` of them.
  std::vector<Line> lines_from(int token, int most);
  /// The first token of the line before the token's; of the first line its first.
  int line_before(int token);
  /// Where to begin so that a difference is in sight and no room is left at the end.
  int begin_for(int difference, int most);
  const std::string& label(int token) { return measured(token).label; }
  double token_width(int token) { return measured(token).width; }
  double size() const { return size_; }
  /// What part of the text a token is: 0 A's, 1 B's, -1 of both.
  int side(int token) const;

  static constexpr double kPitch = 1.7;  // from line to line, in sizes of the letters
  /// How many lines a height has room for.
  int lines_in(double height) const { return static_cast<int>(height / (size_ * kPitch) + 1e-6); }

 private:
  struct Measured {
    std::string label;  // empty: not yet
    double width = 0;
  };
  const Measured& measured(int token);
  bool ends_line_at(int token) const;
  int block_of(int token) const;
  std::string_view piece(int token) const;

  const RunRecord &a_, &b_;
  const ComparedAnswers& answers_;
  double width_, size_;
  std::vector<Measured> measured_;
};

/// A token with its mark. side: as AnswerLines has it.
void draw_answer_token(FigureBuilder& b, const std::string& label, int side, Box box, double size);
/// The lines from that of token `first` on, as many as the box has room for. Panels: "text", and "token.N" of each token.
void draw_answer_lines(FigureBuilder& b, AnswerLines& lines, Box box, int first);

}  // namespace kvscope::views
