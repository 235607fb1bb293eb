// Where two answers differ: the picture's tokens, marks and numbers against the runs, its lines, and the clicks of the view.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "engine/core/support/error.h"
#include "tests/support/parted_runs.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_stage.h"
#include "views/answer_difference_view.h"
#include "views/figure/answer_difference_figure.h"
#include "views/figure/answer_text.h"
#include "views/figure/figure_builder.h"
#include "views/figure/recipe.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_text.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

BuiltFigure figure_of(const RunRecord& a, const RunRecord& b, const AnswerDifferenceOptions& options = {},
                      const FigureStyle& style = {}) {
  const RunRecord* runs[] = {&a, &b};
  return answer_difference_figure(runs, options, style);
}

/// Horizontal lines of that colour within the box: their heights.
std::vector<double> lines_across(const Figure& figure, const Box& box, Colour colour) {
  std::vector<double> heights;
  for (const Primitive& item : figure.items) {
    const auto* line = std::get_if<Polyline>(&item);
    if (line == nullptr || !(line->colour == colour) || line->points.size() != 2) continue;
    if (line->points[0].x == box.x && line->points[1].x == box.right() && line->points[0].y >= box.y &&
        line->points[0].y <= box.bottom())
      heights.push_back(line->points[0].y);
  }
  return heights;
}

bool has_text(const Figure& figure, const std::string& wanted) {
  return std::ranges::any_of(figure.items, [&](const Primitive& item) {
    const auto* text = std::get_if<Text>(&item);
    return text != nullptr && text->utf8 == wanted;
  });
}

std::set<int> tokens_in_sight(const Stage<AnswerDifferenceView>& s) {
  std::set<int> tokens;
  const std::string prefix = "difference.token.";
  for (const std::string& id : s.window.items.ids())
    if (id.starts_with(prefix)) tokens.insert(std::stoi(id.substr(prefix.size())));
  return tokens;
}

}  // namespace

TEST_CASE("The data of an answer difference are both answers, token by token, and what each run had lost") {
  const RunRecord a = random_run(3, {.policy = "full"}), b = parted_run();
  const BuiltFigure built = figure_of(a, b);
  const auto &part = column<std::string>(built.data, "part"), &side = column<std::string>(built.data, "side");
  const auto &at_a = column<double>(built.data, "position_a"), &at_b = column<double>(built.data, "position_b");
  const auto &of_a = column<double>(built.data, "logprob_a"), &of_b = column<double>(built.data, "logprob_b");
  const auto &heads = column<double>(built.data, "heads"), &mass = column<double>(built.data, "mass");
  const auto& id = column<std::int64_t>(built.data, "token_id");
  std::vector<std::int32_t> answer_a, answer_b;
  std::size_t row = 0;
  for (; row < part.size() && part[row] == "text"; ++row) {
    CAPTURE(row);
    const auto value = static_cast<std::int32_t>(id[row]);
    if (side[row] != "b") {
      CHECK(at_a[row] == a.prompt_len + static_cast<int>(answer_a.size()));
      CHECK(of_a[row] == static_cast<double>(a.logprobs[static_cast<std::size_t>(at_a[row])]));
      answer_a.push_back(value);
    }
    if (side[row] != "a") {
      CHECK(at_b[row] == b.prompt_len + static_cast<int>(answer_b.size()));
      CHECK(of_b[row] == static_cast<double>(b.logprobs[static_cast<std::size_t>(at_b[row])]));
      answer_b.push_back(value);
    }
    CHECK(std::isnan(at_a[row]) == (side[row] == "b"));
    CHECK(std::isnan(at_b[row]) == (side[row] == "a"));
    CHECK((std::isnan(heads[row]) && std::isnan(mass[row])));
  }
  CHECK(std::ranges::equal(answer_a, std::span(a.ids).subspan(static_cast<std::size_t>(a.prompt_len))));
  CHECK(std::ranges::equal(answer_b, std::span(b.ids).subspan(static_cast<std::size_t>(b.prompt_len))));
  for (const bool by_a : {true, false}) {
    const LostBetween lost = by_a ? lost_between(a, b, 124, kMostLost) : lost_between(b, a, 124, kMostLost);
    CHECK(lost.tokens.empty() == by_a);  // a full cache loses nothing
    for (const LostToken& token : lost.tokens) {
      REQUIRE(row < part.size());
      CHECK(part[row] == (by_a ? "lost_a" : "lost_b"));
      CHECK((at_a[row] == token.t && heads[row] == token.n_heads && mass[row] == token.mass));
      CHECK((column<double>(built.data, "layer")[row] == token.layer &&
             column<double>(built.data, "kv_head")[row] == token.kv_head));
      ++row;
    }
  }
  CHECK(row == part.size());
  CHECK_THAT(built.caption, Catch::Contains("diverge at token 125") && Catch::Contains("A no token that B still had"));
}

TEST_CASE("Tokens of A alone are struck out, those of B alone underlined, and the others have no mark") {
  const RunRecord a = random_run(3, {.policy = "full"}), b = parted_run();
  FigureStyle style;
  style.width = 900, style.height = 700;
  const Figure figure = figure_of(a, b, {}, style).figure;
  const ComparedAnswers answers = compare_answers(a, b);
  int n[3] = {0, 0, 0};
  for (const Panel& panel : figure.panels) {
    if (!panel.id.starts_with("token.")) continue;
    const JointToken& joint = answers.text.at(static_cast<std::size_t>(std::stoi(panel.id.substr(6))));
    const auto struck = lines_across(figure, panel.box, series_colour(0, false)),
               under = lines_across(figure, panel.box, series_colour(1, false));
    CAPTURE(panel.id, joint.a, joint.b);
    CHECK(struck.size() == (joint.b < 0 ? 1u : 0u));
    CHECK(under.size() == (joint.a < 0 ? 1u : 0u));
    if (!struck.empty()) CHECK(struck[0] == Approx(panel.box.centre().y));
    if (!under.empty()) CHECK(under[0] > panel.box.y + 0.8 * panel.box.h);
    ++n[joint.b < 0 ? 0 : joint.a < 0 ? 1 : 2];
    CHECK(panel.box.right() <= figure.panel("text")->box.right() + 1e-6);
  }
  CHECK((n[0] >= 4 && n[1] >= 4 && n[2] > 40));
}

TEST_CASE("Both probabilities are those that the runs recorded, and the others are not made up") {
  const RunRecord a = random_run(3, {.policy = "full"});
  RunRecord b = parted_run();
  const auto at = [](const RunRecord& run) { return std::exp(static_cast<double>(run.logprobs[125])); };
  const Figure figure = figure_of(a, b).figure;
  for (const std::string& text :
       {format_number(at(a)), format_number(at(b)), "not recorded, at most " + format_number(1 - at(a)),
        "not recorded, at most " + format_number(1 - at(b))})
    CHECK(has_text(figure, text));
  CHECK(has_text(figure, "Entropy and other candidates: not recorded"));
  b.logprobs[125] = NAN;
  const auto chances = chances_at(a, b, compare_answers(a, b));
  CHECK(chance_text(chances[1][1]) == "not recorded");
  CHECK(chance_text(chances[0][1]) == "not recorded");
  CHECK(chance_text(chances[0][0]) == format_number(at(a)));
  b.model.vocab_size += 1;  // another tokenizer's token may be a part of the one that was chosen
  CHECK(chance_text(chances_at(a, b, compare_answers(a, b))[1][0]) == "not recorded");
}

TEST_CASE("The lines of two answers have each token once, and a line is the same from wherever it is asked for") {
  const RunRecord a = random_run(3, {.policy = "full", .prompt_len = 20, .n_new = 1400});
  const RunRecord b = with_other_answer(a, {{700, 3}, {705, 4}, {1200, 5}});
  const ComparedAnswers answers = compare_answers(a, b);
  const double width = GENERATE(30.0, 200.0, 5000.0);
  AnswerLines lines(a, b, answers, width, 9);
  const auto all = lines.lines_from(0, 100000);
  int next = 0;
  for (const AnswerLines::Line& line : all) {
    REQUIRE((line.begin == next && line.end > line.begin));
    double x = 0;
    for (int i = line.begin; i < line.end; ++i) x += lines.token_width(i);
    CHECK(x <= width + 1e-6);
    next = line.end;
  }
  CHECK(next == lines.n_tokens());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int token = all[i].begin + (all[i].end - all[i].begin) / 2;
    REQUIRE(lines.lines_from(token, 1).at(0) == all[i]);
    CHECK(lines.line_before(token) == all[i == 0 ? 0 : i - 1].begin);
  }
  CHECK(lines.lines_from(lines.begin_for(0, 10), 10).size() == std::min<std::size_t>(10, all.size()));
}

TEST_CASE(
    "Answers that are the same, that end early or that follow other prompts have a picture without what is not known") {
  const RunRecord a = random_run(3);
  const BuiltFigure same = figure_of(a, a);
  CHECK(same.figure.panel("choices") == nullptr);
  CHECK(same.figure.panel("lost.a") == nullptr);
  CHECK_THAT(same.caption, Catch::Contains("The answers are the same: 60 tokens."));
  RunRecord shorter = a;
  shorter.ids.resize(150);
  shorter.n_queries = 150;
  const BuiltFigure ends = figure_of(shorter, a);
  CHECK(ends.figure.panel("choices") == nullptr);
  CHECK_THAT(ends.caption, Catch::Contains("A ends where B goes on."));
  const BuiltFigure other = figure_of(a, random_run(4));
  CHECK(other.figure.panel("choices") != nullptr);
  CHECK(other.figure.panel("lost.a") == nullptr);
  CHECK_THAT(other.caption, Catch::Contains("different prompts"));
  const BuiltFigure shape = figure_of(a, with_other_answer(random_run(3, {.n_layers = 3}), {{125, 20}}));
  CHECK(shape.figure.panel("lost.a") == nullptr);
  const RunRecord* one[] = {&a};
  CHECK_THROWS_WITH(answer_difference_figure(one, {}, {}), Catch::Contains("exactly two"));
  CHECK_THROWS_WITH(figure_of(a, random_run(3, {.n_new = 0})), Catch::Contains("Run B has no answer"));
  CHECK_THROWS_AS(figure_of(RunRecord{}, a), Error);
}

TEST_CASE("An answer difference has a picture in every size, and all of it lies within the page") {
  const RunRecord a = random_run(3, {.policy = "full"}), b = parted_run();
  for (const double width : {40.0, 200.0, 396.0, 620.0, 1500.0}) {
    for (const double height : {0.0, 30.0, 120.0, 300.0, 900.0}) {
      FigureStyle style;
      style.width = width, style.height = height;
      const Figure figure = figure_of(a, b, {}, style).figure;
      CAPTURE(width, height);
      CHECK(figure.width == width);
      if (height > 0) CHECK(figure.height == height);
      for (const Panel& panel : figure.panels) {
        INFO(panel.id);
        CHECK((panel.box.x >= 0 && panel.box.y >= 0 && panel.box.w >= 0 && panel.box.h >= 0));
        CHECK((panel.box.right() <= width && panel.box.bottom() <= figure.height));
      }
    }
  }
}

TEST_CASE("A recipe of an answer difference that was written is read as it was") {
  FigureRecipe recipe;
  AnswerDifferenceOptions options{.q = 130, .first = 7, .names = {"A", "run 2"}};
  recipe.options = options;
  const FigureRecipe again = parse_recipe(nlohmann::json::parse(to_json(recipe).dump()), "recipe.json");
  CHECK((again.options == recipe.options));
  CHECK((preset_recipe("run-difference").options == FigureOptions(AnswerDifferenceOptions{})));
}

TEST_CASE("The view says where the answers diverge, and its buttons are commands") {
  Stage<AnswerDifferenceView> s(random_run(3, {.policy = "full"}));
  s.draw();
  CHECK_THAT(s.text("difference.note"), Catch::StartsWith("No B yet"));
  CHECK_FALSE(s.view.figure(s.context));
  s.compare_with(parted_run());
  s.draw();
  CHECK_THAT(s.text("difference.sentence"), Catch::StartsWith("The answers diverge at token 125: A chose ") &&
                                                Catch::Contains("tokens were sampled", Catch::CaseSensitive::No));
  CHECK(s.text("difference.count") ==
        "Difference 1 of " + std::to_string(answer_difference(*s.a.run, *s.b.run).differences.size()));
  const auto draw = [&] { s.view.draw(s.context); };
  s.window.click("difference.next", draw);
  CHECK(s.command == "difference.next");
  s.window.click("difference.previous", draw);
  CHECK(s.command == "difference.previous");
  s.selection.q = 139;
  s.draw();
  CHECK_THAT(s.text("difference.count"), Catch::StartsWith("Difference 2 of "));
  const auto figure = s.view.figure(s.context);
  REQUIRE(figure);
  CHECK(figure->runs.size() == 2);
  CHECK(std::get<AnswerDifferenceOptions>(figure->options).q == 139);
  s.b.preview = true;
  s.draw();
  CHECK_THAT(s.text("difference.note"), Catch::StartsWith("A preview"));
}

TEST_CASE("A click on a lost token selects it, its head and the query, and one on a token of the text goes there") {
  Stage<AnswerDifferenceView> s(random_run(3, {.policy = "full"}));
  s.compare_with(parted_run());
  s.draw();
  const auto draw = [&] { s.view.draw(s.context); };
  const auto card = [&](const std::string& item, const char* line) {
    const ItemRect rect = *s.window.items.find(item);
    ImGui::GetIO().MousePos = {rect.centre_x(), rect.centre_y()};
    s.draw(2);
    return s.text(line);
  };
  const LostBetween lost = lost_between(*s.b.run, *s.a.run, 124, kMostLost);
  s.window.click("difference.lost.b.1", draw);
  CHECK(s.selection.token == lost.tokens.at(1).t);
  CHECK((s.selection.layer == lost.tokens[1].layer && s.selection.kv_head == lost.tokens[1].kv_head));
  CHECK(s.selection.q == 124);
  CHECK_THAT(card("difference.lost.b.1", "difference.card"),
             Catch::StartsWith("At query 124 lost by B and kept by A in " + std::to_string(lost.tokens[1].n_heads) +
                               " of 6 heads"));
  s.window.click("difference.token.2", draw);
  CHECK((s.selection.token == 122 && s.selection.q == 121));
  CHECK_THAT(card("difference.token.2", "difference.card.0"), Catch::StartsWith("A: token 122 "));
  const ComparedAnswers answers = compare_answers(*s.a.run, *s.b.run);
  const auto of_b = std::ranges::find_if(answers.text, [](const JointToken& joint) { return joint.a < 0; });
  const std::string token_of_b = "difference.token." + std::to_string(of_b - answers.text.begin());
  s.window.click(token_of_b, draw);
  CHECK((s.selection.token == 122 && s.selection.q == 124));  // A does not have it
  CHECK(card(token_of_b, "difference.card.0") == "A: does not have it");
  CHECK_THAT(card("difference.lost.a", "difference.card"), Catch::Contains("future mass"));
  CHECK_THAT(card("difference.choices", "difference.card"), Catch::Contains("probability"));
}

TEST_CASE("The text of a long answer begins near the difference in sight, and the wheel scrolls it") {
  const RunRecord a = random_run(3, {.policy = "full", .prompt_len = 20, .n_new = 3000});
  Stage<AnswerDifferenceView> s(a, {}, {900, 500});
  s.compare_with(with_other_answer(a, {{1500, 3}, {2500, 4}}));
  s.draw();
  const std::set<int> first = tokens_in_sight(s);
  CHECK(first.contains(1480));
  CHECK_FALSE((first.contains(0) || first.contains(2400)));
  const ItemRect text = *s.window.items.find("difference.text");
  const auto draw = [&] { s.draw(1); };
  turn_wheel({text.centre_x(), text.centre_y()}, 1, draw);
  s.draw();
  CHECK(*tokens_in_sight(s).begin() < *first.begin());
  turn_wheel({text.centre_x(), text.centre_y()}, -1, draw);
  s.draw();
  CHECK(tokens_in_sight(s) == first);
  s.selection.q = 2499;
  s.draw();
  CHECK(tokens_in_sight(s).contains(2482));  // a token more for each difference before it
}

TEST_CASE("The caches of long runs are compared on a thread") {
  const RandomRunOptions options{.policy = "full",
                                 .n_layers = 24,
                                 .n_kv_heads = 8,
                                 .prompt_len = 11000,
                                 .n_new = 10,
                                 .scorer = false,
                                 .oracle = false};
  const RunRecord a = random_run(3, options);
  Stage<AnswerDifferenceView> s(a);
  s.compare_with(with_other_answer(a, {{11004, 3}}));
  s.draw(1);
  CHECK_THAT(s.text("difference.sentence"), !Catch::Contains("had lost"));
  for (int i = 0; i < 2000 && s.text("difference.sentence").find("had lost") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    s.draw(1);
  }
  CHECK_THAT(s.text("difference.sentence"), Catch::Contains("B had lost no token there that A still had"));
}
