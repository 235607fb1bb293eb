#include "views/figure/answer_text.h"

#include <algorithm>

#include "views/figure/fonts.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr int kBlock = 512;                   // tokens without a line end after which a line ends
constexpr double kChipPad = 1, kChipGap = 1;  // points, of tokens that one run has
constexpr std::size_t kMostOfLabel = 48;      // code points

}  // namespace

AnswerLines::AnswerLines(const RunRecord& a, const RunRecord& b, const ComparedAnswers& answers, double width,
                         double size)
    : a_(a), b_(b), answers_(answers), width_(width), size_(size), measured_(answers.text.size()) {}

int AnswerLines::side(int token) const {
  const JointToken& joint = answers_.text[static_cast<std::size_t>(token)];
  return joint.is_same() ? -1 : joint.a >= 0 ? 0 : 1;
}

std::string_view AnswerLines::piece(int token) const {
  const JointToken& joint = answers_.text[static_cast<std::size_t>(token)];
  const RunRecord& run = joint.a >= 0 ? a_ : b_;
  const auto t = static_cast<std::size_t>(joint.a >= 0 ? joint.a : joint.b);
  return t < run.pieces.size() ? run.pieces[t] : std::string_view();
}

/// Spaces are seen where they may be the difference.
const AnswerLines::Measured& AnswerLines::measured(int token) {
  Measured& one = measured_[static_cast<std::size_t>(token)];
  if (!one.label.empty()) return one;
  const bool same = side(token) < 0;
  one.label = same ? token_text(piece(token)) : token_label(piece(token), kMostOfLabel);
  if (one.label.empty()) one.label = "∅";  // a token without bytes
  const double pad = same ? 0 : 2 * kChipPad;
  one.width = text_width(one.label, FontRole::text, size_) + pad;
  if (one.width > width_) {
    one.label = shortened(one.label, FontRole::text, size_, std::max(0.0, width_ - pad));
    one.width = std::min(width_, text_width(one.label, FontRole::text, size_) + pad);
  }
  return one;
}

bool AnswerLines::ends_line_at(int token) const { return ends_line(piece(token)); }

/// The first token of the last line that a line end, or too long a way from one, began.
int AnswerLines::block_of(int token) const {
  int begin = token;
  while (begin > 0 && !ends_line_at(begin - 1)) --begin;
  return begin + (token - begin) / kBlock * kBlock;
}

std::vector<AnswerLines::Line> AnswerLines::lines_from(int token, int most) {
  std::vector<Line> lines;
  if (n_tokens() == 0) return lines;
  token = std::clamp(token, 0, n_tokens() - 1);
  Line line{block_of(token), block_of(token)};
  double x = 0;
  int in_block = 0;
  const auto end_line = [&] {
    if (line.end > token) lines.push_back(line);
    line.begin = line.end;
    x = 0;
  };
  while (line.end < n_tokens() && static_cast<int>(lines.size()) < most) {
    const double w = token_width(line.end);
    if (line.end > line.begin && x + w > width_) {
      end_line();
      continue;
    }
    x += w + (side(line.end) < 0 ? 0 : kChipGap);
    ++line.end, ++in_block;
    if (!ends_line_at(line.end - 1) && in_block < kBlock) continue;
    end_line();
    in_block = 0;
  }
  if (line.end > line.begin && static_cast<int>(lines.size()) < most) end_line();
  return lines;
}

int AnswerLines::line_before(int token) {
  const std::vector<Line> own = lines_from(token, 1);
  if (own.empty() || own[0].begin == 0) return 0;
  return lines_from(own[0].begin - 1, 1)[0].begin;
}

int AnswerLines::begin_for(int difference, int most) {
  if (n_tokens() == 0) return 0;
  const auto& begins = answers_.begins;
  const bool has_one = difference >= 0 && difference < static_cast<int>(begins.size());
  const std::vector<Line> own = lines_from(has_one ? begins[static_cast<std::size_t>(difference)] : 0, 1);
  int begin = own[0].begin;
  for (int i = 0; i < most / 3 && begin > 0; ++i) begin = line_before(begin);
  while (begin > 0 && static_cast<int>(lines_from(begin, most).size()) < most) begin = line_before(begin);
  return begin;
}

void draw_answer_token(FigureBuilder& b, const std::string& label, int side, Box box, double size) {
  const FigureStyle& s = b.style();
  if (side < 0) {
    // SVG drops spaces at the beginning of a text.
    const std::size_t spaces = std::min(label.find_first_not_of(' '), label.size());
    if (spaces == label.size()) return;
    const double indent = text_width(label.substr(0, spaces), FontRole::text, size);
    return b.text(label.substr(spaces), {box.x + indent, box.centre().y}, size, s.ink, Anchor::start, Baseline::middle);
  }
  const Colour colour = series_colour(static_cast<std::size_t>(side), s.dark);
  b.add(FillBox{box, mix(s.paper, colour, 0.22), 1.5});
  b.text(label, {box.x + kChipPad, box.centre().y}, size, s.ink, Anchor::start, Baseline::middle);
  const double y = side == 0 ? box.centre().y : box.bottom() - 0.6;
  b.line({box.x, y}, {box.right(), y}, colour, 1.1);
}

void draw_answer_lines(FigureBuilder& b, AnswerLines& lines, Box box, int first) {
  const double pitch = lines.size() * AnswerLines::kPitch, height = lines.size() * 1.35;
  b.figure().panels.push_back({"text", box, 0, 0});
  double y = box.y;
  for (const AnswerLines::Line& line : lines.lines_from(first, lines.lines_in(box.h))) {
    double x = box.x;
    for (int i = line.begin; i < line.end; ++i) {
      const Box token{x, y, lines.token_width(i), height};
      draw_answer_token(b, lines.label(i), lines.side(i), token, lines.size());
      b.figure().panels.push_back({"token." + std::to_string(i), token, 0, 0});
      x += token.w + (lines.side(i) < 0 ? 0 : kChipGap);
    }
    y += pitch;
  }
}

}  // namespace kvscope::views
