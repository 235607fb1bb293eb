// Which heads still have a span: every cell of the picture against plain loops, the sentence, the list of the worst misses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>
#include <tuple>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_stage.h"
#include "views/figure/figure_builder.h"
#include "views/figure/lost_fact_figure.h"
#include "views/figure/lost_fact_image.h"
#include "views/figure/recipe.h"
#include "views/figure/state_colours.h"
#include "views/lost_fact_view.h"

using namespace kvscope;
using namespace kvscope::views;
using kvscope::test::column;
using kvscope::test::random_run;

namespace {

RunRecord with_policy(const char* policy) { return random_run(3, {.policy = policy}); }

constexpr const char* kTopK = "top-k:budget=50,sinks=4,window=16";

const Image& image_of(const Figure& figure, std::size_t number) {
  std::vector<const Image*> images;
  for (const Primitive& item : figure.items)
    if (const auto* image = std::get_if<Image>(&item)) images.push_back(image);
  return *images.at(number);
}

/// What one head has at one query, looked at token by token.
struct Pair {
  double share = NAN;  // NaN: nothing of the span is read
  int worst = -1;      // 0: evicted, the oracle agrees; 1: no verdict; 2: the oracle keeps it
};

Pair pair_of(const RunRecord& run, int layer, int head, int q, int first, int last) {
  Pair pair;
  int read = 0, held = 0;
  for (int t = first; t <= last; ++t) {
    const std::int32_t evict_at = run.evict_at.row(layer, head)[static_cast<std::size_t>(t)];
    read += t <= q, held += visible(q, t, evict_at);
    if (evict_at != q) continue;
    const EvictionVerdict verdict = eviction_verdict(run, layer, head, t).verdict;
    pair.worst = std::max(pair.worst, verdict == EvictionVerdict::wrong   ? 2
                                      : verdict == EvictionVerdict::right ? 0
                                                                          : 1);
  }
  if (read > 0) pair.share = static_cast<double>(held) / read;
  return pair;
}

double lost_by(const RunRecord& run, int layer, int head, int first, int last) {
  double lost = 0;
  for (int t = first; t <= last; ++t) {
    const float mass = run.future_mass.row(layer, head)[static_cast<std::size_t>(t)];
    if (run.evict_at.row(layer, head)[static_cast<std::size_t>(t)] < run.queries() && !std::isnan(mass)) lost += mass;
  }
  return lost;
}

std::vector<KvHead> heads_by_mass(const RunRecord& run, int first, int last) {
  std::vector<KvHead> heads;
  for (int layer = 0; layer < run.model.n_layers; ++layer)
    for (int head = 0; head < run.model.n_kv_heads; ++head) heads.push_back({layer, head});
  std::ranges::stable_sort(heads, [&](KvHead a, KvHead b) {
    return lost_by(run, a.layer, a.kv_head, first, last) > lost_by(run, b.layer, b.kv_head, first, last);
  });
  return heads;
}

/// Of the pairs of a cell: the worst eviction, else the mean share, else the background.
Colour expected_colour(const std::vector<Pair>& pairs) {
  int worst = -1, n = 0;
  double sum = 0;
  for (const Pair& pair : pairs) {
    worst = std::max(worst, pair.worst);
    if (!std::isnan(pair.share)) sum += pair.share, ++n;
  }
  if (worst == 2) return eviction_colour(EvictionVerdict::wrong, false);
  if (worst == 1) return eviction_colour(EvictionVerdict::unknown, false);
  if (worst == 0) return eviction_colour(EvictionVerdict::right, false);
  return n == 0 ? state_colour(TokenState::future, false) : share_colour(sum / n, false);
}

}  // namespace

TEST_CASE("Each cell of the lost fact is its heads' mean share of the span, or the worst eviction at its queries") {
  const RunRecord a = random_run(3), b = with_policy(kTopK);
  const RunRecord* runs[] = {&a, &b};
  LostFactOptions options{.token = 30, .n_tokens = 16};
  options.order = GENERATE(HeadOrder::mass, HeadOrder::layer);
  FigureStyle style;
  std::tie(style.width, style.height) = GENERATE(std::pair{800.0, 400.0}, std::pair{90.0, 90.0});
  if (GENERATE(false, true)) options.first = 30, options.count = 60;
  const BuiltFigure built = lost_fact_figure(runs, options, style);
  const TokenSpan queries = lost_fact_queries(runs, options);
  CHECK(queries == (options.count > 0 ? TokenSpan{30, 90} : TokenSpan{0, a.n_tokens()}));
  for (std::size_t i = 0; i < 2; ++i) {
    const RunRecord& run = *runs[i];
    const Image& image = image_of(built.figure, i);
    std::vector<KvHead> heads = heads_by_mass(run, 30, 45);
    if (options.order == HeadOrder::layer) std::ranges::sort(heads);
    if (style.width > 500) REQUIRE((image.columns == queries.size() && image.rows == 6));
    const SpanCells columns(queries, image.columns), rows({0, 6}, image.rows);
    for (int r = 0; r < image.rows; ++r) {
      for (int c = 0; c < image.columns; ++c) {
        std::vector<Pair> pairs;
        for (int h = rows.tokens(r).begin; h < rows.tokens(r).end; ++h) {
          const KvHead head = heads[static_cast<std::size_t>(h)];
          for (int q = columns.tokens(c).begin; q < columns.tokens(c).end; ++q)
            pairs.push_back(pair_of(run, head.layer, head.kv_head, q, 30, 45));
        }
        CAPTURE(i, r, c, image.columns);
        REQUIRE((image.pixels[static_cast<std::size_t>(r) * static_cast<std::size_t>(image.columns) +
                              static_cast<std::size_t>(c)] == expected_colour(pairs)));
      }
    }
  }
}

TEST_CASE("The lost fact's data have a row for each head of each run, as it is drawn") {
  RunRecord a = random_run(3), b = random_run(3, {.policy = kTopK, .oracle = false});
  a.model.head_dim = b.model.head_dim = 8, a.model.dtype = "float32", b.model.dtype = "";
  const RunRecord* runs[] = {&a, &b};
  LostFactOptions options{.token = 40, .n_tokens = 5};
  options.names = {"one"};
  const BuiltFigure built = lost_fact_figure(runs, options, {});
  const auto &layer = column<std::int64_t>(built.data, "layer"), &head = column<std::int64_t>(built.data, "kv_head");
  const auto& mass = column<double>(built.data, "mass_lost");
  const auto& gone = column<double>(built.data, "gone_at");
  REQUIRE(built.data.n_rows() == 12);
  for (std::size_t i = 0; i < 12; ++i) {
    const RunRecord& run = i < 6 ? a : b;
    const int l = static_cast<int>(layer[i]), h = static_cast<int>(head[i]);
    CHECK(column<std::string>(built.data, "run")[i] == (i < 6 ? "one" : "B"));
    int at_answer = 0, at_end = 0, evicted = 0, last = -1;
    std::int64_t queries = 0;
    for (int t = 40; t < 45; ++t) {
      const std::int32_t e = run.evict_at.row(l, h)[static_cast<std::size_t>(t)];
      at_answer += visible(run.prompt_len, t, e), at_end += visible(run.queries() - 1, t, e);
      if (e < run.queries()) ++evicted, last = std::max(last, e), queries += run.queries() - e;
    }
    CHECK(column<std::int64_t>(built.data, "held_at_answer")[i] == at_answer);
    CHECK(column<std::int64_t>(built.data, "held_at_end")[i] == at_end);
    CHECK(column<std::int64_t>(built.data, "evicted")[i] == evicted);
    CHECK(column<std::int64_t>(built.data, "token_queries")[i] == queries);
    CHECK((at_end == 0 ? gone[i] == last : std::isnan(gone[i])));
    CHECK((i < 6 ? mass[i] == Approx(lost_by(a, l, h, 40, 44)) : std::isnan(mass[i])));
    const double bytes = column<double>(built.data, "bytes")[i];
    CHECK((i < 6 ? bytes == evicted * 2.0 * 8 * 4 : std::isnan(bytes)));
  }
  CHECK_THAT(built.caption, Catch::Contains("tokens 40 to 44") && Catch::Contains("B: at the answer"));
  CHECK(built.figure.panel("heads") != nullptr);
  CHECK(built.figure.panel("heads.1") != nullptr);
}

TEST_CASE("A lost fact without a span that all runs have is refused") {
  const RunRecord a = random_run(3);
  RunRecord other = a;
  other.ids[42] += 1;
  const RunRecord* runs[] = {&a, &other};
  CHECK_THROWS_WITH(lost_fact_figure(runs, {.token = 40, .n_tokens = 5}, {}), Catch::Contains("other tokens"));
  CHECK_NOTHROW(lost_fact_figure(runs, {.token = 40, .n_tokens = 2}, {}));
  CHECK_THROWS_AS(lost_fact_figure({}, {}, {}), Error);
  CHECK_THROWS_AS(lost_fact_figure(runs, {.token = 1000}, {}), Error);
  CHECK_THROWS_AS(lost_fact_figure(runs, {.token = 3, .n_tokens = 0}, {}), Error);
  CHECK_THROWS_AS(lost_fact_figure(runs, {.token = 3, .first = 5000, .count = 10}, {}), Error);
}

TEST_CASE("A recipe of a lost fact that was written is read as it was") {
  FigureRecipe recipe;
  LostFactOptions options{.token = 40, .n_tokens = 5, .order = HeadOrder::layer, .first = 3, .count = 90};
  options.names = {"A", "run 7"}, options.previews = {1};
  recipe.options = options;
  const FigureRecipe again = parse_recipe(nlohmann::json::parse(to_json(recipe).dump()), "recipe.json");
  CHECK((again.options == recipe.options));
}

TEST_CASE("The sentence counts the heads that have all and none of the span at the answer, and what keeping it costs") {
  RunRecord run = random_run(3);
  run.model.head_dim = 64, run.model.dtype = "bfloat16";
  int first = 20, all = 0, none = 0, evicted = 0;
  double lost = 0;
  const auto count = [&] {
    all = none = evicted = 0, lost = 0;
    for (int layer = 0; layer < 2; ++layer) {
      for (int head = 0; head < 3; ++head) {
        const Pair pair = pair_of(run, layer, head, run.prompt_len, first, first + 1);
        all += pair.share == 1, none += pair.share == 0, lost += lost_by(run, layer, head, first, first + 1);
        for (int t = first; t < first + 2; ++t)
          evicted += run.evict_at.row(layer, head)[static_cast<std::size_t>(t)] < run.queries();
      }
    }
  };
  for (count(); first < 90 && (none < 2 || all < 2 || all + none == 6); count()) ++first;
  REQUIRE((evicted > 0 && none > 1 && all > 1 && all + none < 6));
  test::Stage<LostFactView> s(run, {.brush = {first, first + 2}});
  s.draw();
  CHECK_THAT(
      s.text("lost.sentence"),
      Catch::EndsWith("(2 tokens): at the answer " + std::to_string(all) + " of 6 heads still have all of it, " +
                      std::to_string(none) + " have none. Mass lost: " + format_number(lost) +
                      ". To keep it in every head to the end would cost " + bytes_text(evicted * 2.0 * 64 * 2) + "."));
  s.selection.brush = {}, s.selection.token = 41;  // else the selected token
  s.draw();
  CHECK_THAT(s.text("lost.sentence"), Catch::Contains("(token 41)"));
  s.selection.token = -1;
  s.draw();
  CHECK_THAT(s.text("lost.sentence"), Catch::StartsWith("Select a token"));
  CHECK_FALSE(s.view.figure(s.context));
  CHECK(s.has("lost.miss.0"));  // which leads to a token
}

TEST_CASE("Nothing is said of a mass that is not known, nor of an eviction that did not happen") {
  test::Stage<LostFactView> none(random_run(3, {.oracle = false}), {.token = 41});
  none.draw();
  CHECK_THAT(none.text("lost.sentence"), Catch::Contains("mass lost is not known, because the run has no oracle"));
  CHECK_THAT(none.text("lost.misses"), Catch::StartsWith("No oracle in this run"));
  test::Stage<LostFactView> full(random_run(3, {.policy = "full"}), {.token = 41});
  full.draw();
  CHECK_THAT(full.text("lost.sentence"), Catch::Contains("no head evicts any of it. All 6 heads have it to the end."));
  RunRecord running = random_run(3);
  running.status = RunStatus::running;
  test::Stage<LostFactView> growing(running, {.token = 41});
  growing.draw();
  CHECK_THAT(growing.text("lost.misses"), Catch::Contains("when the run has ended"));
}

TEST_CASE("A click on a miss selects its token, head and query, and the list is in the order of its mass") {
  const RunRecord run = random_run(3);
  test::Stage<LostFactView> s(run, {.brush = {2, 4}});
  s.draw();
  const std::vector<Eviction> worst = worst_misses(run, eviction_verdicts(run), JudgedRuns::kMisses);
  REQUIRE(worst.size() > 3);
  for (int i = 0; i < 3; ++i) {
    const Eviction& miss = worst[static_cast<std::size_t>(i)];
    CHECK_THAT(s.text("lost.miss." + std::to_string(i)),
               Catch::StartsWith(std::to_string(miss.t) + " \"") &&
                   Catch::EndsWith("\" | L" + std::to_string(miss.layer) + " H" + std::to_string(miss.kv_head) + " | " +
                                   std::to_string(miss.q) + " | " + format_number(miss.mass)));
  }
  s.window.click("lost.miss.2", [&] { s.view.draw(s.context); });
  CHECK(s.selection.token == worst[2].t);
  CHECK((s.selection.layer == worst[2].layer && s.selection.kv_head == worst[2].kv_head));
  CHECK(s.selection.q == worst[2].q);
  CHECK(s.selection.brush.empty());  // of other tokens
  s.draw();
  CHECK_THAT(s.text("lost.sentence"), Catch::Contains("(token " + std::to_string(worst[2].t) + ")"));
}

TEST_CASE("A click on a head of the lost fact selects it, and the order is the selection's") {
  test::Stage<LostFactView> s(random_run(3), {.token = 41});
  s.draw();
  const auto draw = [&] { s.view.draw(s.context); };
  s.window.click("lost.head.1.2", draw);
  CHECK((s.selection.layer == 1 && s.selection.kv_head == 2));
  CHECK(s.selection.q.has_value());
  const auto y_of = [&](const char* item) { return s.window.items.find(item)->y; };
  s.window.click("lost.order.1", draw);
  s.draw();
  CHECK(s.selection.lost_by_layer);
  CHECK(y_of("lost.head.0.0") < y_of("lost.head.0.1"));
  CHECK(y_of("lost.head.0.2") < y_of("lost.head.1.0"));
  const auto figure = s.view.figure(s.context);
  REQUIRE(figure);
  CHECK((std::get<LostFactOptions>(figure->options).order == HeadOrder::layer));
}

TEST_CASE("The lost fact shows B where it has the span, and the runs of the list that have the same text") {
  RunRecord parted = with_policy(kTopK);
  for (std::size_t t = 100; t < parted.ids.size(); ++t) parted.ids[t] += 1;
  test::Stage<LostFactView> s(random_run(3), {.token = 41});
  s.compare_with(parted);
  s.draw();
  CHECK(s.has("lost.heads.1"));
  CHECK(s.view.figure(s.context)->runs.size() == 2);
  s.selection.token = 110;
  s.draw();
  CHECK_FALSE(s.has("lost.heads.1"));
  int asked = 0;
  s.context.same_text = [&](int n) {
    asked = n;
    return std::vector<ShownRun>{s.a, test::shown(with_policy(kTopK), "run 2"),
                                 test::shown(with_policy("full"), "run 3")};
  };
  s.draw();
  CHECK(asked == 111);
  CHECK(s.has("lost.heads.2"));
  CHECK((std::get<LostFactOptions>(s.view.figure(s.context)->options).names ==
         std::vector<std::string>{"A", "run 2", "run 3"}));
}

TEST_CASE("A long run's lost fact is judged and drawn on a thread") {
  const RunRecord run = random_run(3, {.n_layers = 24, .n_kv_heads = 4, .prompt_len = 900, .n_new = 100});
  test::Stage<LostFactView> s(run, {.token = 41});
  s.draw(1);
  CHECK_THAT(s.text("lost.sentence"), Catch::StartsWith("Judging"));
  for (int i = 0; i < 2000 && s.text("lost.sentence").starts_with("Judging"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    s.draw(1);
  }
  s.draw();
  CHECK_THAT(s.text("lost.sentence"), Catch::Contains("of 96 heads"));
  CHECK(s.has("lost.head.23.3"));
}
