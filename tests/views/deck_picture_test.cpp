// The time deck's picture: what is in a head's cache, and what leaves it, query by query.

#include "views/widgets/deck_picture.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/core/study/retention_metrics.h"
#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/token_strip_view.h"
#include "views/widgets/time_deck.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

TEST_CASE("the deck's picture has a column for each query, as high as its cache, and a mark where tokens are evicted") {
  const RunRecord run = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  const int n = run.n_tokens();
  const Theme theme;
  const DeckPicture picture = deck_picture(run, 1, 2, n, theme);
  REQUIRE(picture.image.columns == n);
  const Occupancy occ = occupancy(run, 1, 2);
  const Colour evicted = theme.palette.muted;
  int most_cached = 0, most_evicted = 0;
  for (int q = 0; q < n; ++q) {
    CAPTURE(q);
    const auto leaving = static_cast<int>(std::ranges::count(run.evict_at.row(1, 2), q));
    most_evicted = std::max(most_evicted, leaving);
    const auto at = static_cast<std::size_t>(q);
    most_cached = std::max(most_cached, occ.sinks[at] + occ.long_range[at] + occ.window[at]);
    const auto lowest =
        picture.image.pixels[static_cast<std::size_t>(picture.image.rows - 1) * static_cast<std::size_t>(n) + at];
    CHECK((lowest == evicted) == (leaving > 0));
  }
  CHECK(most_evicted > 0);
  CHECK(picture.most_evicted == most_evicted);
  CHECK(picture.most_cached == most_cached);

  Stage<TokenStripView> s(run);
  s.selection.layer = 1, s.selection.kv_head = 2;
  TimeDeck deck(s.window.services);
  s.window.frame([&] { deck.draw(s.context, 160); });
  CHECK(s.text("timeline.heights") ==
        "at most " + std::to_string(most_cached) + " in cache, " + std::to_string(most_evicted) + " evicted a query");
}

TEST_CASE("a full cache evicts nothing, and the deck says so") {
  Stage<TokenStripView> s(random_run(3, {.policy = "full"}));
  TimeDeck deck(s.window.services);
  s.window.frame([&] { deck.draw(s.context, 160); });
  CHECK_THAT(s.text("timeline.heights"), Catch::EndsWith(", no evictions"));
}
