// The card of a run: its numbers against plain loops, and what it shows of a text that does not fit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/measure/eviction_headline.h"
#include "engine/core/study/measure/oracle.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_run.h"
#include "tests/views/figure_column.h"
#include "views/figure/recipe.h"
#include "views/figure/run_card_figure.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::Contains;

namespace {

std::string all_text(const Figure& figure) {
  std::string all;
  for (const Primitive& item : figure.items)
    if (const auto* text = std::get_if<Text>(&item)) all += text->utf8 + "\n";
  return all;
}

}  // namespace

TEST_CASE("run card: each token has the heads that a plain loop counts", "[views][figure]") {
  RunRecord run = random_run(5, {.policy = "kvpop:budget=64,sinks=4,window=16", .last_token_fed = false});
  const bool local = GENERATE(false, true);
  if (local) make_local(run, {0, 1, 0, 0, 1, 0});
  for (const std::size_t head : {1, 4})
    if (local) own_rules(run)[head].locality = Locality::model;
  const std::int32_t q = GENERATE(-1, 100);
  const BuiltFigure card = run_card_figure(run, {.q = q}, {.width = 500, .height = 400});
  const auto position = column<std::int64_t>(card.data, "position"),
             kept = column<std::int64_t>(card.data, "kept_heads"), heads = column<std::int64_t>(card.data, "heads");
  const auto wrong = column<double>(card.data, "wrong_heads");
  REQUIRE(position.size() > 20);
  const int seen_by = q < 0 ? run.n_tokens() - 1 : q;
  double all_wrong = 0;
  for (std::size_t i = 0; i < position.size(); ++i) {
    const auto t = static_cast<std::int32_t>(position[i]);
    CAPTURE(local, q, t);
    CHECK(t <= seen_by);
    int n = 0, alive = 0, lost = 0;
    for (int head = 0; head < 6; ++head) {
      if (local && (head == 1 || head == 4)) continue;
      ++n;
      alive += run.evict_at.row(head / 3, head % 3)[static_cast<std::size_t>(t)] > seen_by;
      lost += eviction_verdict(run, head / 3, head % 3, t).verdict == EvictionVerdict::wrong;
    }
    CHECK(kept[i] == alive);
    CHECK(heads[i] == n);
    CHECK(wrong[i] == lost);
    all_wrong += lost;
  }
  CHECK(all_wrong > 0);
  CHECK(card.figure.panel("map") != nullptr);
  CHECK(card.figure.panel("text") != nullptr);
}

TEST_CASE("run card: it says what the headline says, and shows the costliest token of a text that does not fit",
          "[views][figure]") {
  const RunRecord run = random_run(7, {.policy = "kvpop:budget=64,sinks=4,window=16", .prompt_len = 600});
  const auto headline = eviction_headline(run);
  REQUIRE((headline && headline->costliest));
  const BuiltFigure card = run_card_figure(run, {}, {});
  const auto position = column<std::int64_t>(card.data, "position");
  REQUIRE(position.size() < run.ids.size());
  CHECK(std::ranges::find(position, headline->costliest->t) != position.end());
  for (std::size_t i = 1; i < position.size(); ++i) REQUIRE(position[i] == position[i - 1] + 1);
  CHECK_THAT(all_text(card.figure), Contains(wrong_share_text(*headline) + " of evictions were wrong") &&
                                        Contains("KV head " + std::to_string(headline->worst->kv_head)));
  CHECK(card.figure.height == Approx(0.525 * card.figure.width));
  CHECK_THAT(error_of([&] { run_card_figure(run, {}, {.width = 300, .height = 40}); }),
             Contains("no room for the text"));
}

TEST_CASE("run card: without an oracle nothing is judged", "[views][figure]") {
  const RunRecord run = random_run(2, {.oracle = false});
  const BuiltFigure card = run_card_figure(run, {}, {});
  CHECK_THAT(all_text(card.figure), Contains("No oracle"));
  for (const double wrong : column<double>(card.data, "wrong_heads")) REQUIRE(std::isnan(wrong));
}
