#include "views/figure/answer_difference_figure.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/core/support/error.h"
#include "views/figure/answer_text.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/parting_panel.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr int kPaperLines = 14, kPaperRows = 8, kLeastLines = 3;
constexpr double kMargin = 3, kBetween = 8;  // points around the page, and between its parts
constexpr double kBesideWidth = 58;          // in sizes of the letters: from here on the numbers are beside the text
constexpr double kShareOfNumbers = 0.4;      // of the width, then
constexpr double kShareOfLists = 0.6;        // else of the height that is left below three lines of text

/// Where everything goes; without height: it is left out.
struct DifferenceRoom {
  Box key, text, choices, lost[2];
  double height = 0;
};

double line_pitch(const FigureStyle& s) { return s.label_size * AnswerLines::kPitch; }

/// The page without its margin.
Box page_of(const FigureStyle& s) {
  return {kMargin, kMargin, std::max(4.0, s.width - 2 * kMargin), std::max(0.0, s.height - 2 * kMargin)};
}

/// Of a picture that is as high as it needs.
DifferenceRoom natural_room(const FigureStyle& s, int lines, bool choices, int rows) {
  const Box page = page_of(s);
  DifferenceRoom room;
  room.key = {page.x, page.y, page.w, 2 * row_height(s)};
  double y = room.key.bottom() + kBetween / 2;
  const auto take = [&](double height) {
    const Box box{page.x, y, page.w, height};
    y += height + kBetween;
    return box;
  };
  room.text = take(lines * line_pitch(s));
  if (choices) room.choices = take(choices_height(s));
  if (rows > 0) {
    const Box both = take(title_height(s) + rows * row_height(s));
    const double width = std::max(1.0, (both.w - kBetween) / 2);
    room.lost[0] = {both.x, both.y, width, both.h};
    room.lost[1] = {both.x + width + kBetween, both.y, width, both.h};
  }
  room.height = y - kBetween + kMargin;
  return room;
}

/// Numbers at the right of the text: a short list leaves its room to the other one.
DifferenceRoom room_beside(const FigureStyle& s, std::array<int, 2> rows) {
  const Box page = page_of(s);
  DifferenceRoom room;
  const double width = page.w * kShareOfNumbers, text = page.w - width - 2 * kBetween;
  room.key = {page.x, page.y, text, 2 * row_height(s)};
  const double top = room.key.bottom() + kBetween / 2;
  room.text = {page.x, top, text, std::max(0.0, page.bottom() - top)};
  room.choices = {page.right() - width, page.y, width, choices_height(s)};
  room.height = s.height;
  double y = room.choices.bottom() + kBetween;
  const int fit = static_cast<int>((page.bottom() - y - kBetween - 2 * title_height(s)) / row_height(s));
  if (fit < 2 || rows[0] == 0) return room;
  const int of_a = std::min(rows[0], std::max(fit / 2, fit - rows[1]));
  const int shown[] = {of_a, std::min(rows[1], fit - of_a)};
  for (int run = 0; run < 2; ++run) {
    room.lost[run] = {room.choices.x, y, width, title_height(s) + shown[run] * row_height(s)};
    y = room.lost[run].bottom() + kBetween;
  }
  return room;
}

/// Numbers below the text, which has three lines before they have any room.
DifferenceRoom room_below(const FigureStyle& s, bool choices, int rows) {
  double rest = page_of(s).h - kLeastLines * line_pitch(s);
  const auto fits = [&](double height) {
    const bool enough = rest >= height;
    rest -= enough ? height : 0;
    return enough;
  };
  const bool has_key = fits(2 * row_height(s) + kBetween / 2);
  const bool has_choices = choices && fits(choices_height(s) + kBetween);
  const double lists = rest * kShareOfLists - title_height(s) - kBetween;
  const int fit = has_choices ? std::clamp(static_cast<int>(lists / row_height(s)), 0, rows) : 0;
  DifferenceRoom room = natural_room(s, 0, has_choices, fit);
  const double above = has_key ? 0 : room.text.y - kMargin;
  const double lines = std::max(0.0, s.height - room.height + above);  // what is left is the text's
  if (!has_key) room.key.h = 0;
  room.text.y -= above, room.text.h = lines;
  for (Box* box : {&room.choices, &room.lost[0], &room.lost[1]}) box->y += lines - above;
  room.height = s.height;
  return room;
}

/// What the marks mean, with each run's policy.
void draw_key(FigureBuilder& b, Box box, const PartingNumbers& numbers) {
  const FigureStyle& s = b.style();
  for (int run = 0; run < 2; ++run) {
    const RunRecord& record = run == 0 ? numbers.a : numbers.b;
    const std::string label = "only in " + answer_name(numbers.options, static_cast<std::size_t>(run));
    const double width = std::min(box.w, text_width(label, FontRole::text, s.tick_size) + 2);
    const double row = row_height(s), y = box.y + run * row, height = s.tick_size * 1.35;
    draw_answer_token(b, shortened(label, FontRole::text, s.tick_size, std::max(0.0, box.w - 2)), run,
                      {box.x, y + (row - height) / 2, width, height}, s.tick_size);
    const double left = box.x + width + 6, room = box.right() - left;
    if (room < 4 * s.tick_size) continue;
    b.text(shortened(record.policy.brief(), FontRole::text, s.tick_size, room), {left, y + row / 2}, s.tick_size,
           s.muted, Anchor::start, Baseline::middle);
  }
}

/// The numbers, a list for each column.
struct DifferenceColumns {
  std::vector<std::string> part, side, token;
  std::vector<std::int64_t> token_id;
  std::vector<double> position_a, position_b, logprob_a, logprob_b, heads, mass, layer, kv_head;

  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  void add_token(const RunRecord& a, const RunRecord& b, const JointToken& joint) {
    const RunRecord& run = joint.a >= 0 ? a : b;
    const auto t = static_cast<std::size_t>(joint.a >= 0 ? joint.a : joint.b);
    part.emplace_back("text"), side.emplace_back(joint.is_same() ? "same" : joint.a >= 0 ? "a" : "b");
    add_text(run, t);
    const auto number = [](std::int32_t position) { return position < 0 ? kNone : static_cast<double>(position); };
    position_a.push_back(number(joint.a)), position_b.push_back(number(joint.b));
    const auto logprob = [](const RunRecord& of, std::int32_t at) {
      const auto i = static_cast<std::size_t>(at);
      return at < 0 || i >= of.logprobs.size() ? kNone : static_cast<double>(of.logprobs[i]);
    };
    logprob_a.push_back(logprob(a, joint.a)), logprob_b.push_back(logprob(b, joint.b));
    for (auto* column : {&heads, &mass, &layer, &kv_head}) column->push_back(kNone);
  }

  void add_lost(const RunRecord& a, const LostBetween& lost, const LostToken& one, const char* name) {
    part.emplace_back(name), side.emplace_back("");
    add_text(a, static_cast<std::size_t>(one.t));
    position_a.push_back(one.t), position_b.push_back(one.t);
    logprob_a.push_back(kNone), logprob_b.push_back(kNone);
    heads.push_back(one.n_heads), mass.push_back(lost.mass_of == MassOf::none ? kNone : one.mass);
    layer.push_back(one.layer), kv_head.push_back(one.kv_head);
  }

  FigureData take() {
    return {{{"part", std::move(part)},
             {"side", std::move(side)},
             {"position_a", std::move(position_a)},
             {"position_b", std::move(position_b)},
             {"token_id", std::move(token_id)},
             {"token", std::move(token)},
             {"logprob_a", std::move(logprob_a)},
             {"logprob_b", std::move(logprob_b)},
             {"heads", std::move(heads)},
             {"mass", std::move(mass)},
             {"layer", std::move(layer)},
             {"kv_head", std::move(kv_head)}}};
  }

 private:
  void add_text(const RunRecord& run, std::size_t t) {
    token_id.push_back(run.ids[t]);
    token.push_back(t < run.pieces.size() ? token_label(run.pieces[t]) : "");
  }
};

FigureData tidy_answers(const PartingNumbers& numbers) {
  DifferenceColumns columns;
  for (const JointToken& joint : numbers.answers.text) columns.add_token(numbers.a, numbers.b, joint);
  for (std::size_t run = 0; numbers.lost != nullptr && run < 2; ++run) {
    const LostBetween& lost = (*numbers.lost)[run];
    for (const LostToken& token : lost.tokens) columns.add_lost(numbers.a, lost, token, run == 0 ? "lost_a" : "lost_b");
  }
  return columns.take();
}

std::string describe_ranking(const LostOfBoth& lost, const AnswerDifferenceOptions& o) {
  const auto whose = [&](std::size_t run) {
    return answer_name(o, lost[run].mass_of == MassOf::loser ? run : 1 - run);
  };
  std::string text =
      " Lost tokens: those that query cannot see in that run and can see in the other, in one KV head at "
      "least, with the number of such heads";
  if (lost[0].mass_of == MassOf::none) return text + ", which ranks them.";
  text += " and their future mass (mean attention from each later query under a full cache), summed over these heads, ";
  return text + "which ranks them; masses are those that run " + whose(0) +
         (whose(0) == whose(1) ? " recorded."
                               : " recorded for what it lost, and run " + whose(1) + " for the other list.");
}

std::string describe_answers(const PartingNumbers& n) {
  const std::string name_a = answer_name(n.options, 0), name_b = answer_name(n.options, 1);
  std::string text = "The answers of " + name_a + " and " + name_b +
                     " as one text, aligned by a longest common subsequence of tokens. Struck out: only in " + name_a +
                     "; underlined: only in " + name_b + ". " + count_sentence(n.answers, n.options);
  const std::string parting = parting_sentence(n.a, n.b, n.answers, n.lost, n.options);
  if (!parting.empty()) text += " " + parting;
  if (n.lost != nullptr) text += describe_ranking(*n.lost, n.options);
  return text + " " + name_a + ": " + describe_run(n.a) + " " + name_b + ": " + describe_run(n.b);
}

}  // namespace

BuiltFigure answer_difference_figure(std::span<const RunRecord* const> runs, const AnswerDifferenceOptions& options,
                                     const FigureStyle& style) {
  const auto refuse_answers = [](const std::string& found, const std::string& expected) {
    throw Error({ExitCode::bad_input, "", "answer_difference", found, expected, ""});
  };
  if (runs.size() != 2)
    refuse_answers(std::to_string(runs.size()) + (runs.size() == 1 ? " run" : " runs"), "exactly two");
  const RunRecord &a = *runs[0], &b = *runs[1];
  if (const std::string why = why_no_answers(a, b); !why.empty()) refuse_answers(why, "two runs with an answer");
  const ComparedAnswers answers = compare_answers(a, b);
  std::optional<LostOfBoth> lost;
  if (answers.why_no_lost.empty()) lost = lost_of_both(a, b, answers.parting->q);
  return answer_difference_figure(a, b, answers, lost ? &*lost : nullptr, options, style);
}

BuiltFigure answer_difference_figure(const RunRecord& a, const RunRecord& b, const ComparedAnswers& answers,
                                     const LostOfBoth* lost, const AnswerDifferenceOptions& o, const FigureStyle& s) {
  const PartingNumbers numbers{a, b, answers, lost, o};
  const bool choices = answers.parting.has_value();
  const std::array<int, 2> rows = lost_rows(numbers);
  const int most_rows = std::max(rows[0], rows[1]);
  DifferenceRoom room;
  if (s.height > 0) {
    const bool beside = choices && s.width >= kBesideWidth * s.tick_size && page_of(s).h >= choices_height(s);
    room = beside ? room_beside(s, rows) : room_below(s, choices, most_rows);
  } else {
    AnswerLines all(a, b, answers, page_of(s).w, s.label_size);
    const auto n = static_cast<int>(all.lines_from(0, kPaperLines).size());
    room = natural_room(s, std::max(1, n), choices, std::min(most_rows, kPaperRows));
  }
  FigureBuilder builder(s.width, room.height, s);
  if (room.key.h > 0) draw_key(builder, room.key, numbers);
  AnswerLines lines(a, b, answers, room.text.w, s.label_size);
  const int most = lines.lines_in(room.text.h), difference = difference_at(answers.difference, o.q);
  draw_answer_lines(builder, lines, room.text, o.first >= 0 ? o.first : lines.begin_for(difference, most));
  if (room.choices.h > 0) draw_choices(builder, room.choices, numbers);
  for (int run = 0; run < 2; ++run)
    if (room.lost[run].h > 0) draw_lost(builder, room.lost[run], numbers, run);
  builder.figure().title = "Where two answers differ";
  return {std::move(builder.figure()), tidy_answers(numbers), describe_answers(numbers)};
}

}  // namespace kvscope::views
