#include "views/figure/parting_panel.h"

#include <algorithm>
#include <cmath>

#include "views/figure/fonts.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr double kSpace = 4;  // points between what is beside each other

std::string label_in(const RunRecord& run, std::int32_t t) {
  const auto i = static_cast<std::size_t>(t);
  return i < run.pieces.size() ? token_label(run.pieces[i], 24) : "";
}

void panel_title(FigureBuilder& b, const std::string& text, Box box) {
  const FigureStyle& s = b.style();
  b.text(shortened(text, FontRole::bold, s.tick_size, box.w), {box.x, box.y + s.tick_size * 0.8}, s.tick_size, s.ink,
         Anchor::start, Baseline::middle, 0, FontRole::bold);
}

/// A line of text in the muted colour, cut at the box.
void muted_line(FigureBuilder& b, const std::string& text, Box box) {
  const FigureStyle& s = b.style();
  b.text(shortened(text, FontRole::text, s.tick_size, box.w), {box.x, box.centre().y}, s.tick_size, s.muted,
         Anchor::start, Baseline::middle);
}

void chance_bar(FigureBuilder& b, Box box, const TokenChance& chance, std::size_t run) {
  const FigureStyle& s = b.style();
  const Colour colour = series_colour(run, s.dark);
  if (!std::isnan(chance.recorded)) {
    b.add(FillBox{{box.x, box.y, box.w * std::clamp(chance.recorded, 0.0, 1.0), box.h}, colour});
  } else if (!std::isnan(chance.at_most)) {
    b.add(StrokeBox{{box.x, box.y, box.w * std::clamp(chance.at_most, 0.0, 1.0), box.h}, colour, 0.7, 0, 2});
  }
  b.line({box.x, box.y - 1}, {box.x, box.bottom() + 1}, s.rule, s.rule_width);
}

/// What ranks the tokens.
double rank_of(const LostBetween& lost, const LostToken& token) {
  return lost.mass_of == MassOf::none ? token.n_heads : token.mass;
}

/// The longest bar of both lists, so that they have one scale.
double greatest_rank(const LostOfBoth& lost) {
  double most = 0;
  for (const LostBetween& one : lost)
    for (const LostToken& token : one.tokens) most = std::max(most, rank_of(one, token));
  return most;
}

std::string lost_numbers(const LostBetween& lost, const LostToken& token) {
  const std::string heads = std::to_string(token.n_heads) + (token.n_heads == 1 ? " head" : " heads");
  return lost.mass_of == MassOf::none ? heads : heads + " · " + format_number(token.mass);
}

void lost_row(FigureBuilder& b, Box row, const PartingNumbers& numbers, int run, const LostToken& token, double most) {
  const FigureStyle& s = b.style();
  const LostBetween& lost = (*numbers.lost)[static_cast<std::size_t>(run)];
  const double share = most > 0 ? rank_of(lost, token) / most : 0;
  const Box bar{row.x, row.y + 1, row.w * share, row.h - 2};
  b.add(FillBox{bar, mix(s.paper, series_colour(static_cast<std::size_t>(run), s.dark), 0.30), 1});
  const std::string right = lost_numbers(lost, token);
  const double right_width = text_width(right, FontRole::text, s.tick_size);
  const double room = row.w - right_width - 3 * kSpace;
  if (room > s.tick_size) {
    b.text(shortened(std::to_string(token.t) + " " + label_in(numbers.a, token.t), FontRole::text, s.tick_size, room),
           {row.x + 2, row.centre().y}, s.tick_size, s.ink, Anchor::start, Baseline::middle);
  }
  const std::string fits = shortened(right, FontRole::text, s.tick_size, std::max(0.0, row.w - 4));
  b.text(fits, {row.right() - 2, row.centre().y}, s.tick_size, s.ink, Anchor::end, Baseline::middle);
}

}  // namespace

double title_height(const FigureStyle& style) { return style.tick_size * 1.8; }
double row_height(const FigureStyle& style) { return style.tick_size * 1.6; }

double choices_height(const FigureStyle& style) { return title_height(style) + 5 * row_height(style) + kSpace; }

void draw_choices(FigureBuilder& b, Box box, const PartingNumbers& numbers) {
  if (!numbers.answers.parting) return;
  const FigureStyle& s = b.style();
  const Parting& at = *numbers.answers.parting;
  const std::string token[] = {label_in(numbers.a, at.a), label_in(numbers.b, at.b)};
  const std::string name[] = {answer_name(numbers.options, 0), answer_name(numbers.options, 1)};
  b.figure().panels.push_back({"choices", box, 0, 0});
  panel_title(b, "Token " + std::to_string(at.a) + ": its probability in each run", box);
  const auto chances = chances_at(numbers.a, numbers.b, numbers.answers);
  double tokens = 0, names = 0, values = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    tokens = std::max(tokens, text_width(token[i], FontRole::text, s.tick_size));
    names = std::max(names, text_width(name[i], FontRole::text, s.tick_size));
    for (std::size_t r = 0; r < 2; ++r)
      values = std::max(values, text_width(chance_text(chances[i][r]), FontRole::text, s.tick_size));
  }
  tokens = std::min(tokens, box.w * 0.25), names = std::min(names, box.w * 0.2),
  values = std::min(values, box.w * 0.48);
  const double left = box.x + tokens + names + 2 * kSpace, bar = std::max(1.0, box.right() - left - values - kSpace);
  const double row = row_height(s);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t which = i / 2, run = i % 2;
    const double y = box.y + title_height(s) + static_cast<double>(i) * row, middle = y + row / 2;
    const auto text = [&](const std::string& words, double x, double width, Colour colour) {
      b.text(shortened(words, FontRole::text, s.tick_size, width), {x, middle}, s.tick_size, colour, Anchor::start,
             Baseline::middle);
    };
    if (run == 0) text(token[which], box.x, tokens, s.ink);
    text(name[run], box.x + tokens + kSpace, names, s.muted);
    chance_bar(b, {left, y + row * 0.2, bar, row * 0.6}, chances[which][run], run);
    const bool recorded = !std::isnan(chances[which][run].recorded);
    text(chance_text(chances[which][run]), left + bar + kSpace, values, recorded ? s.ink : s.muted);
  }
  muted_line(b, "Entropy and other candidates: not recorded", {box.x, box.y + title_height(s) + 4 * row, box.w, row});
}

std::array<int, 2> lost_rows(const PartingNumbers& numbers) {
  constexpr int kWhileCounting = 8;
  if (!numbers.answers.why_no_lost.empty()) return {0, 0};
  if (numbers.lost == nullptr) return {kWhileCounting, kWhileCounting};
  const auto of = [](const LostBetween& lost) { return std::max(1, static_cast<int>(lost.tokens.size())); };
  return {of((*numbers.lost)[0]), of((*numbers.lost)[1])};
}

void draw_lost(FigureBuilder& b, Box box, const PartingNumbers& numbers, int run) {
  const FigureStyle& s = b.style();
  const std::string id = run == 0 ? "lost.a" : "lost.b";
  const std::string loser = answer_name(numbers.options, static_cast<std::size_t>(run)),
                    keeper = answer_name(numbers.options, static_cast<std::size_t>(1 - run));
  b.figure().panels.push_back({id, box, 0, 0});
  const LostBetween* lost = numbers.lost == nullptr ? nullptr : &(*numbers.lost)[static_cast<std::size_t>(run)];
  const std::string n = lost == nullptr ? "" : ": " + std::to_string(lost->n_tokens);
  panel_title(b, "Lost by " + loser + ", kept by " + keeper + n, box);
  Box row{box.x, box.y + title_height(s), box.w, row_height(s)};
  if (lost == nullptr || lost->tokens.empty())
    return muted_line(b, lost == nullptr ? "Comparing the caches ..." : "No token", row);
  const double most = greatest_rank(*numbers.lost);
  for (std::size_t i = 0; i < lost->tokens.size() && row.bottom() <= box.bottom() + 1e-6; ++i) {
    lost_row(b, row, numbers, run, lost->tokens[i], most);
    b.figure().panels.push_back({id + "." + std::to_string(i), row, 0, 0});
    row.y += row.h;
  }
}

}  // namespace kvscope::views
