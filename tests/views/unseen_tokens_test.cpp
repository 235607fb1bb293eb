// What a query could not see: the figure's numbers against plain loops, its recipe, and what the view shows meanwhile.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>

#include "engine/core/support/error.h"
#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_stage.h"
#include "views/figure/recipe.h"
#include "views/figure/render.h"
#include "views/unseen_tokens_view.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using kvscope::test::random_run;

namespace {

/// Head i of all gives token t a share in proportion to 1 + (7 t + 3 i) mod 13.
std::shared_ptr<const QueryAttention> made_up_row(const RunRecord& run, int query) {
  auto attention = std::make_shared<QueryAttention>(QueryAttention{
      .n_layers = run.model.n_layers, .n_kv_heads = run.model.n_kv_heads, .n_tokens = query + 1, .probability = {}});
  for (int head = 0; head < run.model.n_layers * run.model.n_kv_heads; ++head) {
    float sum = 0;
    for (int t = 0; t <= query; ++t) sum += static_cast<float>(1 + (7 * t + 3 * head) % 13);
    for (int t = 0; t <= query; ++t)
      attention->probability.push_back(static_cast<float>(1 + (7 * t + 3 * head) % 13) / sum);
  }
  return attention;
}

bool is_gone(const RunRecord& run, int layer, int head, int t, int query) {
  return run.evict_at.row(layer, head)[static_cast<std::size_t>(t)] <= query;
}

std::shared_ptr<const UnseenAttention> unseen_of(const RunRecord& run, int query, HeadScope scope) {
  return std::make_shared<const UnseenAttention>(unseen_attention(run, *made_up_row(run, query), scope));
}

struct UnseenStage : test::Stage<UnseenTokensView> {
  explicit UnseenStage(RunRecord run, Selection s = {}) : Stage(std::move(run), s) { context.query_attention = &asked; }
  void answer(int query) { asked.answer = made_up_row(*a.run, query); }
  AskedQueryAttention asked;
};

}  // namespace

TEST_CASE("The data of what a query could not see are its attention by token and what each head misses") {
  const RunRecord run = random_run(3);
  const HeadScope scope = GENERATE(HeadScope{1, 2}, HeadScope{0, -1}, HeadScope{-1, -1});
  const int query = 150;
  UnseenTokensOptions options{.unseen = unseen_of(run, query, scope)};
  if (GENERATE(false, true)) options.first = 20, options.count = 90, options.whole = true;
  const BuiltFigure built = unseen_tokens_figure(run, options, {});
  const TokenSpan tokens = unseen_tokens_drawn(options);
  CHECK(tokens == (options.count > 0 ? TokenSpan{20, 110} : TokenSpan{0, 151}));
  const auto attention = made_up_row(run, query);
  const auto &token = column<double>(built.data, "token"), &held = column<double>(built.data, "held"),
             &evicted = column<double>(built.data, "evicted"), &without = column<double>(built.data, "heads_without"),
             &missing = column<double>(built.data, "missing");
  REQUIRE(built.data.n_rows() == static_cast<std::size_t>(tokens.size()) + 6);
  for (int row = 0; row < tokens.size(); ++row) {
    const auto i = static_cast<std::size_t>(row);
    const int t = tokens.begin + row;
    double has = 0, lost = 0, n = 0, n_without = 0;
    for (int layer = 0; layer < 2; ++layer) {
      for (int head = 0; head < 3; ++head) {
        if (!scope.has(layer, head)) continue;
        ++n;
        const bool gone = is_gone(run, layer, head, t, query);
        (gone ? lost : has) += attention->row(layer, head)[t], n_without += gone;
      }
    }
    CHECK(column<std::string>(built.data, "mark")[i] == "token");
    CHECK(token[i] == t);
    CHECK(held[i] == Approx(has / n).margin(1e-7));
    CHECK(evicted[i] == Approx(lost / n).margin(1e-7));
    CHECK(without[i] == n_without);
    CHECK(std::isnan(missing[i]));
  }
  for (int head = 0; head < 6; ++head) {
    const auto i = static_cast<std::size_t>(tokens.size() + head);
    double lost = 0;
    for (int t = 0; t <= query; ++t)
      if (is_gone(run, head / 3, head % 3, t, query)) lost += attention->row(head / 3, head % 3)[t];
    CHECK(column<std::string>(built.data, "mark")[i] == "head");
    CHECK(column<double>(built.data, "layer")[i] == head / 3);
    CHECK(column<double>(built.data, "kv_head")[i] == head % 3);
    CHECK(missing[i] == Approx(lost).margin(1e-7));
    CHECK(std::isnan(token[i]));
  }
  CHECK(built.figure.panel("bars") != nullptr);
  REQUIRE(built.figure.panel("missing") != nullptr);
  CHECK((built.figure.panel("missing")->rows == 2 && built.figure.panel("missing")->columns == 3));
}

TEST_CASE("The evicted part of a bar is hatched, and its height is the attention on evicted tokens") {
  const RunRecord run = random_run(3);
  const auto unseen = unseen_of(run, 150, {1, 2});
  FigureStyle style;
  style.width = 1000, style.height = 400;  // a bar for each token
  const UnseenTokensOptions options{.unseen = unseen, .whole = true};
  const Figure figure = unseen_tokens_figure(run, options, style).figure;
  const Box box = figure.panel("bars")->box;
  const SpanCells bars = unseen_bars(options, box.w);
  REQUIRE(bars.cells == 151);
  double greatest = 0;
  for (std::size_t t = 0; t < 151; ++t) greatest = std::max<double>(greatest, unseen->held[t] + unseen->evicted[t]);
  std::vector<double> heights(151, 0);
  for (const Primitive& item : figure.items) {
    const auto* hatch = std::get_if<Hatch>(&item);
    if (hatch == nullptr || !box.contains(hatch->box.centre())) continue;
    heights[static_cast<std::size_t>((hatch->box.centre().x - box.x) / box.w * 151)] += hatch->box.h;
  }
  for (std::size_t t = 0; t < 151; ++t)
    CHECK(heights[t] == Approx(unseen->evicted[t] / (greatest * 1.05) * box.h).margin(1e-6));
}

TEST_CASE("What a query could not see is made again, byte for byte, from its recipe, which brings the shares along") {
  UnseenStage stage(random_run(3), {.layer = 1, .kv_head = 2});
  CHECK_FALSE(stage.view.figure(stage.context).has_value());
  stage.answer(150);
  stage.selection.unseen_heads = GENERATE(UnseenHeads::one, UnseenHeads::layer, UnseenHeads::all);
  stage.selection.unseen_whole = stage.selection.unseen_heads == UnseenHeads::layer;
  if (stage.selection.unseen_heads == UnseenHeads::all) stage.selection.view = {20, 170};
  const std::optional<ViewFigure> figure = stage.view.figure(stage.context);
  REQUIRE(figure);
  FigureRecipe recipe;
  recipe.options = figure->options;
  const RunRecord* runs[] = {stage.a.run.get()};
  const BuiltFigure built = build_figure(recipe, runs);
  const auto text = nlohmann::json::parse(to_json(recipe).dump());
  CHECK(text["figure"].get<std::string>() == "unseen_tokens");
  const BuiltFigure again = build_figure(parse_recipe(text, "r.json"), runs);
  CHECK(render_svg(again.figure) == render_svg(built.figure));
  CHECK(again.data.to_csv() == built.data.to_csv());
  CHECK(again.caption == built.caption);

  const RunRecord other = random_run(3, {.policy = "streaming:window=30"});
  const RunRecord* others[] = {&other};
  CHECK_THROWS_WITH(build_figure(parse_recipe(text, "r.json"), others), Catch::Contains("evicted by other heads"));
  const RunRecord small = random_run(3, {.prompt_len = 20, .n_new = 5});
  const RunRecord* smaller[] = {&small};
  CHECK_THROWS_AS(build_figure(parse_recipe(text, "r.json"), smaller), Error);
  nlohmann::json without = text;
  without.erase("unseen");
  CHECK_THROWS_AS(build_figure(parse_recipe(without, "r.json"), runs), Error);
  for (const auto& [key, value] : {std::pair<const char*, nlohmann::json>("query", 149),
                                   {"query", -1},
                                   {"held", "much"},
                                   {"evicted", nlohmann::json::array({0.5})},
                                   {"missing", nlohmann::json::array({0.5})},
                                   {"missing", nlohmann::json::parse("[[0.5], [0.5, 0.5]]")}}) {
    nlohmann::json wrong = text;
    wrong["unseen"][key] = value;
    CHECK_THROWS_AS(parse_recipe(wrong, "r.json"), Error);
  }
  nlohmann::json wrong = text;
  wrong["unseen"]["held"][3] = 2;
  CHECK_THROWS_AS(parse_recipe(wrong, "r.json"), Error);
}

TEST_CASE("The view of what a query could not see asks the engine while it is drawn, and keeps the last answer") {
  UnseenStage stage(random_run(3), {.layer = 1, .kv_head = 2, .q = 150});
  stage.draw();
  CHECK(stage.asked.wanted);
  CHECK(stage.text("unseen.note") == "Reading ...");
  stage.asked.why_not = "Available when the run ends.";
  stage.draw();
  CHECK(stage.text("unseen.note") == "Available when the run ends.");
  stage.asked.why_not.clear();
  stage.answer(150);
  stage.draw();
  CHECK(stage.has("unseen.bars"));
  CHECK_THAT(stage.text("unseen.sentence"), Catch::StartsWith("Query 150, L1 H2: "));
  stage.selection.q = 151;
  stage.draw();
  CHECK_THAT(stage.text("unseen.sentence"), Catch::StartsWith("Reading query 151 ... Query 150, L1 H2: "));
  stage.asked.answer = made_up_row(random_run(4, {.n_layers = 3}), 100);  // of another model
  stage.draw();
  CHECK(stage.text("unseen.note") == "Reading ...");
  stage.context.query_attention = nullptr;
  stage.draw();
  CHECK_THAT(stage.text("unseen.note"), Catch::Contains("needs the engine"));
}

TEST_CASE("The sentence has the share that is missing, the evicted tokens, and the one that is missed most") {
  UnseenStage stage(random_run(3), {.layer = 1, .kv_head = 2, .q = 150});
  const RunRecord& run = *stage.a.run;
  stage.answer(150);
  const auto attention = made_up_row(run, 150);
  double missing = 0;
  int n = 0, most = -1;
  for (int t = 0; t <= 150; ++t) {
    if (!is_gone(run, 1, 2, t, 150)) continue;
    missing += attention->row(1, 2)[t], ++n;
    if (most < 0 || attention->row(1, 2)[t] > attention->row(1, 2)[most]) most = t;
  }
  REQUIRE((n > 20 && missing > 0.1));
  stage.draw();
  char text[64];
  std::snprintf(text, sizeof text, ": %.0f %% of its attention would go to %d evicted tokens; most to ", 100 * missing,
                n);
  CHECK_THAT(stage.text("unseen.sentence"),
             Catch::Contains(text) && Catch::Contains("(token " + std::to_string(most) + "): "));
  CHECK_THAT(stage.text("unseen.token.0"),
             Catch::StartsWith(std::to_string(most) + " \"") &&
                 Catch::EndsWith(" | " + std::to_string(run.evict_at.row(1, 2)[static_cast<std::size_t>(most)])));
  stage.answer(5);
  stage.selection.q = 5;
  stage.draw();
  CHECK_THAT(stage.text("unseen.sentence"), Catch::EndsWith("no token is evicted, so the query sees all 6."));
  CHECK_THAT(stage.text("unseen.missing"), Catch::StartsWith("None"));
}

TEST_CASE("A click on a missing token selects it, on a cell its head, on a bar its token") {
  UnseenStage stage(random_run(3), {.layer = 1, .kv_head = 2, .q = 150});
  stage.answer(150);
  stage.draw();
  const auto draw = [&] { stage.view.draw(stage.context); };
  const int third = std::stoi(stage.text("unseen.token.2"));
  stage.window.click("unseen.token.2", draw);
  CHECK(stage.selection.token == third);
  stage.window.click("unseen.head.0.1", draw);
  CHECK((stage.selection.layer == 0 && stage.selection.kv_head == 1));
  stage.draw();
  CHECK_THAT(stage.text("unseen.sentence"), Catch::StartsWith("Query 150, L0 H1: "));
  stage.window.click("unseen.bars", draw);  // its middle: token 75, or one beside it
  CHECK(std::abs(stage.selection.token - 75) <= 1);
  stage.window.click("unseen.heads.2", draw);
  stage.draw();
  CHECK(stage.selection.unseen_heads == UnseenHeads::all);
  CHECK_THAT(stage.text("unseen.sentence"), Catch::StartsWith("Query 150, mean over 6 heads: "));
  CHECK_THAT(stage.text("unseen.token.0"), Catch::EndsWith(" of 6"));
  stage.window.click("unseen.whole", draw);
  CHECK(stage.selection.unseen_whole);
}

TEST_CASE("A layer that attends to its window by design has no unseen tokens, and the view shows why") {
  RunRecord run = random_run(3);
  test::set_heads(run, &HeadRule::locality,
                  std::vector<Locality>{Locality::model, Locality::model, Locality::model, Locality::global,
                                        Locality::global, Locality::global});
  UnseenStage stage(run, {.layer = 0, .kv_head = 1, .q = 150});
  stage.answer(150);
  stage.draw();
  CHECK_THAT(stage.text("unseen.note"), Catch::Contains("by the model's design"));
  CHECK_FALSE(stage.view.figure(stage.context).has_value());
  stage.selection.layer = 1;
  stage.draw();
  CHECK(stage.has("unseen.bars"));
}

TEST_CASE("What a query of a large run could not see is added up on a thread") {
  UnseenStage stage(
      random_run(3, {.n_layers = 64, .n_kv_heads = 16, .prompt_len = 900, .n_new = 100, .oracle = false}));
  stage.answer(stage.a.run->n_tokens() - 1);
  stage.draw(1);
  CHECK(stage.text("unseen.note") == "Adding up ...");
  for (int i = 0; i < 2000 && !stage.has("unseen.sentence"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    stage.draw(1);
  }
  CHECK(stage.has("unseen.bars"));
}
