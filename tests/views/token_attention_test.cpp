// The attention of one token over later queries: the figure's numbers, what a head loses, and what the view says meanwhile.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/measure/attention_loss.h"
#include "engine/core/support/error.h"
#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_stage.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/recipe.h"
#include "views/figure/render.h"
#include "views/figure/token_attention_figure.h"
#include "views/figure/wrap_label.h"
#include "views/token_attention_view.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using kvscope::test::random_run;

namespace {

/// Head h gives token t at query q the share (h + 1) / (q + 2).
std::shared_ptr<TokenAttention> made_up(const RunRecord& run, int layer, int token) {
  auto attention = std::make_shared<TokenAttention>(
      TokenAttention{.layer = layer, .n_heads = run.model.n_heads, .n_queries = run.n_tokens(), .tokens = {token}});
  for (int head = 0; head < attention->n_heads; ++head) {
    for (int q = 0; q < attention->n_queries; ++q)
      attention->probability.push_back(q < token ? std::nanf("") : (head + 1.f) / (q + 2.f));
  }
  return attention;
}

struct AttentionStage : test::Stage<TokenAttentionView> {
  explicit AttentionStage(RunRecord run, Selection s = {}) : Stage(std::move(run), s) { context.attention = &asked; }
  AskedAttention asked;
};

}  // namespace

TEST_CASE("what a head loses by an eviction is the attention of the queries from then on, behind the window") {
  TokenAttention attention{.layer = 0, .n_heads = 4, .n_queries = 6, .tokens = {1}};
  for (int head = 0; head < 4; ++head) {
    for (int q = 0; q < 6; ++q)
      attention.probability.push_back(q < 1 ? std::nanf("") : static_cast<float>(10 * head + q));
  }
  // Heads 2 and 3, window 2: queries 3, 4, 5 give (23 + 33) / 2, (24 + 34) / 2, (25 + 35) / 2.
  const AttentionLoss loss = attention_loss(attention, 0, 2, 2, 2, 5);
  CHECK(loss.all == Approx(28 + 29 + 30));
  CHECK(loss.lost == Approx(30));
  CHECK(loss.share() == Approx(30.0 / 87));
  CHECK(attention_loss(attention, 0, 2, 2, 2, kNever).lost == 0);
  CHECK(attention_loss(attention, 0, 2, 2, 2, kUndecided).lost == 0);
  CHECK(attention_loss(attention, 0, 2, 2, 2, 2).lost == Approx(87));  // gone before the window ends: all of it
  CHECK(attention_loss(attention, 0, 0, 2, 9, 2).share() == 0);        // no query behind the window
}

TEST_CASE(
    "the attention figure's points are means, least and greatest over the queries and heads that they stand for") {
  const RunRecord run = random_run(5);
  const RunRecord* runs[] = {&run};
  const int token = 30;
  TokenAttentionOptions options{.attention = made_up(run, 1, token), .kv_head = 2};  // query heads 4 and 5
  options.points = GENERATE(1000, 40, 1);
  options.logarithmic = GENERATE(true, false);
  const BuiltFigure built = token_attention_figure(runs, options, {});
  const auto &first = column<std::int64_t>(built.data, "first"), &last = column<std::int64_t>(built.data, "last");
  const auto &mean = column<double>(built.data, "mean"), &low = column<double>(built.data, "low"),
             &high = column<double>(built.data, "high");
  CHECK(static_cast<int>(first.size()) <= options.points);
  int next = token;
  for (std::size_t i = 0; i < first.size(); ++i) {
    REQUIRE(first[i] == next);
    double sum = 0, least = 1e9, most = 0;
    for (std::int64_t q = first[i]; q <= last[i]; ++q) {
      for (const double head : {5.0, 6.0}) {
        const double p = head / (static_cast<double>(q) + 2);
        sum += p / (2.0 * static_cast<double>(last[i] - first[i] + 1));
        least = std::min(least, p), most = std::max(most, p);
      }
    }
    CHECK(mean[i] == Approx(sum));
    CHECK(low[i] == Approx(least));
    CHECK(high[i] == Approx(most));
    next = static_cast<int>(last[i]) + 1;
  }
  CHECK(next == run.n_tokens());
  REQUIRE(built.figure.panel("attention") != nullptr);
}

TEST_CASE("the attention figure says when A and B evict the token, and what share each loses") {
  RunRecord a = random_run(5), b = a;
  const int token = 30;
  a.evict_at.row(1, 2)[token] = 100;
  b.evict_at.row(1, 2)[token] = kNever;
  const RunRecord* runs[] = {&a, &b};
  const auto attention = made_up(a, 1, token);
  const BuiltFigure built = token_attention_figure(runs, {.attention = attention, .kv_head = 2}, {});
  double all = 0, lost = 0;
  for (int q = token + a.geometry().window; q < a.n_tokens(); ++q) {
    all += 5.5 / (q + 2.0);
    if (q >= 100) lost += 5.5 / (q + 2.0);
  }
  char text[128];
  std::snprintf(text, sizeof text, "A evicts it at query 100, losing %.3g %% of its attention after the window",
                100 * lost / all);
  CHECK(built.caption.find(text) != std::string::npos);
  CHECK(built.caption.find("B keeps it. ") != std::string::npos);
}

TEST_CASE("a label of a legend that is wider than the figure goes on in the next line") {
  const std::string label =
      "A evicts it at query 512, losing 12.5 % of its attention after the window, kvpop:keep=25%,sinks=4";
  for (const double width : {60.0, 120.0, 200.0, 2000.0}) {
    CAPTURE(width);
    std::string joined;
    const std::vector<std::string> lines = wrap_label(label, width, 8);
    for (const std::string& line : lines) {
      joined += line;
      const std::string shown = line.ends_with(' ') ? line.substr(0, line.size() - 1) : line;
      const bool is_word = shown.find_first_of(" ,") >= shown.size() - 1;
      CHECK((is_word || text_width(shown, FontRole::text, 8) <= width));
    }
    CHECK(joined == label);
    CHECK((lines.size() == 1) == (width == 2000));
  }
  FigureBuilder b(120, 400, {});
  const double height = b.legend({0, 0}, 110, {{LegendEntry::Mark::curve, label, {}}}, true);
  CHECK(height > 2 * b.legend({0, 0}, 110, {{LegendEntry::Mark::curve, "short", {}}}, true));
}

TEST_CASE("the attention figure refuses what does not belong together") {
  const RunRecord run = random_run(5);
  const RunRecord* runs[] = {&run};
  const auto attention = made_up(run, 1, 30);
  CHECK_THROWS_AS(token_attention_figure({}, {.attention = attention}, {}), Error);
  CHECK_THROWS_AS(token_attention_figure(runs, {}, {}), Error);
  CHECK_THROWS_AS(token_attention_figure(runs, {.attention = attention, .kv_head = 3}, {}), Error);
  auto longer = std::make_shared<TokenAttention>(*attention);
  longer->n_queries = run.n_tokens() + 1;
  CHECK_THROWS_AS(token_attention_figure(runs, {.attention = longer}, {}), Error);
}

TEST_CASE(
    "the attention view asks for a token, asks the engine while it is drawn, and draws only the answer to its question") {
  Selection selection;
  selection.layer = 1, selection.kv_head = 2;
  AttentionStage stage(random_run(5), selection);
  stage.draw();
  CHECK_FALSE(stage.asked.wanted);
  CHECK(stage.text("attention.note").find("Select a token") == 0);
  stage.selection.token = 30;
  stage.draw();
  CHECK(stage.asked.wanted);
  CHECK(stage.text("attention.note") == "Reading ...");
  stage.asked.why_not = "The engine decodes.";
  stage.draw();
  CHECK(stage.text("attention.note") == "The engine decodes.");
  stage.asked.why_not.clear();
  stage.asked.answer = made_up(*stage.a.run, 1, 31);  // of another token: somebody clicked on
  stage.draw();
  CHECK(stage.text("attention.note") == "Reading ...");
  CHECK_FALSE(stage.has("attention.plot"));
  stage.asked.answer = made_up(*stage.a.run, 1, 30);
  stage.draw();
  CHECK(stage.has("attention.plot"));
}

TEST_CASE(
    "what the attention view shows is made again, byte for byte, from its recipe, which brings the shares along") {
  Selection selection;
  selection.layer = 1, selection.kv_head = 2, selection.token = 30;
  AttentionStage stage(random_run(5), selection);
  CHECK_FALSE(stage.view.figure(stage.context).has_value());
  stage.asked.answer = made_up(*stage.a.run, 1, 30);
  stage.draw();
  const std::optional<ViewFigure> figure = stage.view.figure(stage.context);
  REQUIRE(figure);
  FigureRecipe recipe;
  recipe.options = figure->options;
  const RunRecord* runs[] = {stage.a.run.get()};
  const std::string svg = render_svg(build_figure(recipe, runs).figure);
  const auto text = nlohmann::json::parse(to_json(recipe).dump());
  CHECK(text["figure"].get<std::string>() == "token_attention");
  CHECK(render_svg(build_figure(parse_recipe(text, "r.json"), runs).figure) == svg);

  for (const char* damage :
       {R"({"layer": 1, "token": 30})", R"({"layer": 1, "token": 30, "heads": [[0.5], [0.5, 0.5]]})",
        R"({"layer": 1, "token": 30, "heads": [[2]]})", R"({"layer": -1, "token": 30, "heads": [[0.5]]})", R"("much")",
        R"({"layer": 1, "token": 30, "heads": [["a"]]})"}) {
    nlohmann::json wrong = text;
    wrong["attention"] = nlohmann::json::parse(damage);
    CHECK_THROWS_AS(parse_recipe(wrong, "r.json"), Error);
  }
  nlohmann::json without = text;
  without.erase("attention");
  CHECK_THROWS_AS(build_figure(parse_recipe(without, "r.json"), runs), Error);
}
