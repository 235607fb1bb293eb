// The time deck's picture: what is in a head's cache, and what leaves it, query by query.

#include "views/widgets/deck_picture.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/core/study/measure/retention_metrics.h"
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
  const Colour evicted = eviction_colour(theme.dark);
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
    CHECK(lowest.a == 255);  // the lane has a ground of its own
    CHECK(lowest != theme.palette.panel);
  }
  CHECK(most_evicted > 0);
  CHECK(picture.most_evicted == most_evicted);
  CHECK(picture.most_cached == most_cached);

  Stage<TokenStripView> s(run);
  s.selection.layer = 1, s.selection.kv_head = 2;
  TimeDeck deck(s.window.services);
  s.window.frame([&] { deck.draw(s.context, 160); });
  CHECK(s.text("timeline.heights") == "sinks, kept, window, peak " + std::to_string(most_cached) + " tokens, peak " +
                                          std::to_string(most_evicted) +
                                          (most_evicted == 1 ? " eviction per query" : " evictions per query"));
}

// The label lay over the picture.
TEST_CASE("what the deck says of its map stands over it, and where there is little room it says less") {
  Stage<TokenStripView> s(random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16", .prompt_len = 3000}));
  TimeDeck deck(s.window.services);
  s.window.frame([&] { deck.draw(s.context, 160); });
  const ItemRect map = *s.window.items.find("timeline.scrub"), bar = *s.window.items.find("timeline.viewport");
  for (const char* item : {"timeline.heights", "timeline.deck_tokens_per_pixel"}) {
    CAPTURE(item);
    REQUIRE(s.has(item));
    const ItemRect text = *s.window.items.find(item);
    CHECK(text.y + text.h <= bar.y);
    CHECK(text.y + text.h <= map.y);
  }
  s.window.resize({470, 900});
  s.window.frame([&] { deck.draw(s.context, 160); });
  CHECK_THAT(s.text("timeline.heights"), Catch::StartsWith("peak"));
  s.window.frame([&] { deck.draw(s.context, 90); });
  CHECK_FALSE(s.has("timeline.heights"));
}

TEST_CASE("while nothing is in the cache the deck says so, and of a run that goes on that nothing was evicted so far") {
  RunRecord run = random_run(3, {.policy = "full"});
  run.status = RunStatus::running;
  Stage<TokenStripView> s(run);
  TimeDeck deck(s.window.services);
  s.window.frame([&] { deck.draw(s.context, 160); });
  CHECK_THAT(s.text("timeline.heights"), Catch::EndsWith(", no evictions yet"));
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) run.evict_at.row(layer, head).clear();
  }
  Stage<TokenStripView> first(run);
  TimeDeck empty(first.window.services);
  first.window.frame([&] { empty.draw(first.context, 160); });
  CHECK(first.text("timeline.heights") == "cache is empty");
}

TEST_CASE("the deck says what Play and live do") {
  Stage<TokenStripView> s(random_run(3), {.q = 100});
  TimeDeck deck(s.window.services);
  const auto hint = [&](const char* item) {
    s.window.frame([&] { deck.draw(s.context, 160); });
    const ItemRect button = *s.window.items.find(item);
    ImGui::GetIO().MousePos = {button.centre_x(), button.centre_y()};
    for (int i = 0; i < 3; ++i) s.window.frame([&] { deck.draw(s.context, 160); });
    return s.text("hint");
  };
  CHECK(hint("timeline.play") == "Play query by query (Space)");
  CHECK(hint("timeline.live") == "Go to the newest query and follow the run");
}

TEST_CASE("a full cache evicts nothing, and the deck says so") {
  Stage<TokenStripView> s(random_run(3, {.policy = "full"}));
  TimeDeck deck(s.window.services);
  s.window.frame([&] { deck.draw(s.context, 160); });
  CHECK_THAT(s.text("timeline.heights"), Catch::EndsWith(", no evictions"));
}
