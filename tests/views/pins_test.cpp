// Pins as they are drawn: letter and colour in every view that has tokens or heads, and nothing where the run has none.
#include <catch2/catch.hpp>
#include <set>

#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/cache_timeline_view.h"
#include "views/inspector_view.h"
#include "views/layer_head_map_view.h"
#include "views/token_strip_view.h"
#include "views/widgets/pin_list.h"
#include "views/widgets/pin_marks.h"
#include "views/widgets/time_deck.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

/// Pins a (L1 H2, token 7), b (L0 H1, token 12) and c (L0 H0, token 170).
Selection with_pins(const RunRecord& run) {
  Selection selection;
  add_pin(selection.pins, run, 1, 2, 7);
  add_pin(selection.pins, run, 0, 1, 12);
  add_pin(selection.pins, run, 0, 0, 170);
  return selection;
}

/// A view of a run with pins that were found for it, as the window does it before a frame.
template <typename ViewType>
struct Pinned : Stage<ViewType> {
  explicit Pinned(RunRecord run, Selection s) : Stage<ViewType>(std::move(run), std::move(s)) {}
  void draw() {
    finder.update(this->context);
    Stage<ViewType>::draw();
  }
  /// The letter as it was painted, not as the registry says it.
  std::string painted(const std::string& id) { return this->has(id) ? this->window.written_in(id) : "(not drawn)"; }
  bool coloured(const std::string& id, int letter) {
    return this->window.colours_in(id).contains(to_imgui(pin_colour(letter)));
  }
  PinFinder finder;
};

struct DeckView {
  explicit DeckView(const ViewServices& services) : deck(services) {}
  void draw(ViewContext& context) { deck.draw(context, 130); }
  TimeDeck deck;
};

}  // namespace

TEST_CASE("A pin has its letter and its colour at the token in the text") {
  Pinned<TokenStripView> s(random_run(3), with_pins(random_run(3)));
  s.draw();
  CHECK(s.text("strip.pin.a") == "a");
  CHECK_THAT(s.painted("strip.pin.b"), Catch::Contains("b"));
  CHECK(s.coloured("strip.pin.a", 0));
  CHECK(s.coloured("strip.pin.b", 1));
  const auto token = s.window.items.find("strip.token.7"), flag = s.window.items.find("strip.pin.a");
  REQUIRE((token && flag));
  CHECK(flag->centre_x() > token->x);
  CHECK(flag->centre_x() < token->x + token->w + 3);
  s.selection.pins.clear();
  s.draw();
  CHECK_FALSE(s.has("strip.pin.a"));
}

TEST_CASE("A pin is a column of the layers and of the deck's map, and a row of the timeline") {
  Selection selection = with_pins(random_run(3));
  selection.layers = true;
  Pinned<TokenStripView> layers(random_run(3), selection);
  layers.draw();
  CHECK_THAT(layers.painted("layers.pin.a"), Catch::Contains("a"));
  CHECK(layers.coloured("layers.pin.c", 2));
  CHECK(layers.window.items.find("layers.pin.a")->x < layers.window.items.find("layers.pin.c")->x);
  layers.selection.view = {0, 50};
  layers.draw();
  CHECK(layers.has("layers.pin.b"));
  CHECK_FALSE(layers.has("layers.pin.c"));

  Pinned<CacheTimelineView> timeline(random_run(3), with_pins(random_run(3)));
  timeline.draw();
  CHECK(timeline.coloured("timeline.pin.c", 2));
  CHECK(timeline.window.items.find("timeline.pin.c")->y < timeline.window.items.find("timeline.pin.a")->y);

  Pinned<DeckView> deck(random_run(3), with_pins(random_run(3)));
  deck.draw();
  CHECK_THAT(deck.painted("deck.pin.b"), Catch::Contains("b"));
  const auto scrub = deck.window.items.find("timeline.scrub"), c = deck.window.items.find("deck.pin.c");
  REQUIRE((scrub && c));
  CHECK(c->centre_x() == Approx(scrub->x + scrub->w * 170.5 / 180).margin(2));
}

TEST_CASE("Letters of pins that lie near each other do not cover each other") {
  Selection selection = with_pins(random_run(3));
  for (const int token : {8, 9, 170}) add_pin(selection.pins, random_run(3), 1, 1, token);
  selection.layers = true;
  Pinned<TokenStripView> layers(random_run(3), selection);
  Pinned<CacheTimelineView> timeline(random_run(3), selection);
  Pinned<DeckView> deck(random_run(3), selection);
  layers.draw(), timeline.draw(), deck.draw();
  const auto check = [](const std::string& view, const ItemRegistry& items) {
    std::vector<ItemRect> flags;
    for (int letter = 0; letter < 6; ++letter) {
      const auto flag = items.find(view + ".pin." + pin_letter(letter));
      REQUIRE(flag.has_value());
      for (const ItemRect& other : flags) {
        CAPTURE(view, letter);
        CHECK((std::abs(flag->x - other.x) >= flag->w || std::abs(flag->y - other.y) >= flag->h));
      }
      flags.push_back(*flag);
    }
  };
  check("layers", layers.window.items);
  check("timeline", timeline.window.items);
  check("deck", deck.window.items);
}

TEST_CASE("A pin marks the cell of its head on the map, of A and of B") {
  Pinned<LayerHeadMapView> s(random_run(3), with_pins(random_run(3)));
  s.draw();
  const auto cell = s.window.items.find("map.cell.1.2"), flag = s.window.items.find("map.pin.a");
  REQUIRE((cell && flag));
  CHECK((flag->x >= cell->x - 1 && flag->y >= cell->y - 1 && flag->centre_x() < cell->x + cell->w));
  CHECK(s.coloured("map.pin.a", 0));
  s.compare_with(random_run(3, {.policy = "streaming:window=60"}));
  for (int i = 0; i < 300 && !s.has("map.b.pin.b"); ++i) s.draw();
  CHECK(s.text("map.b.pin.b") == "b");
}

TEST_CASE(
    "A run that is shorter, or has fewer heads, draws the pins that it has, and the list says why of the others") {
  const RunRecord shorter = random_run(3, {.n_layers = 1, .n_new = 20});
  Pinned<TokenStripView> strip(shorter, with_pins(random_run(3)));
  strip.draw();
  CHECK_FALSE(strip.has("strip.pin.a"));
  CHECK(strip.has("strip.pin.b"));
  Pinned<InspectorView> list(shorter, with_pins(random_run(3)));
  set_pin_note(list.selection.pins, random_run(3), 1, "the comma");
  list.draw();
  CHECK(list.text("pins.a") == "L1 H2, token 7: this run has no such head");
  CHECK(list.text("pins.c") == "L0 H0, token 170: after this run's end");
  CHECK_THAT(list.text("pins.b"), Catch::StartsWith("L0 H1, token 12 “"));
  CHECK(list.text("pins.b.note") == "the comma");
  list.window.click("pins.b", [&] { list.view.draw(list.context); });
  CHECK((list.selection.layer == 0 && list.selection.kv_head == 1 && list.selection.token == 12));
  list.window.click("pins.c", [&] { list.view.draw(list.context); });
  CHECK(list.selection.token == 12);
  list.window.click("inspector.pin", [&] { list.view.draw(list.context); });
  CHECK(list.command == "pin.toggle");
}

TEST_CASE("The eight colours of pins differ, and each stands out from the panels, dark and light") {
  std::set<std::uint32_t> seen;
  for (int letter = 0; letter < kMaxPins; ++letter) {
    CHECK(seen.insert(to_imgui(pin_colour(letter))).second);
    for (const bool dark : {true, false}) {
      const Colour c = pin_colour(letter), panel = make_theme(dark, 1).palette.panel;
      CHECK(std::abs(c.r - panel.r) + std::abs(c.g - panel.g) + std::abs(c.b - panel.b) > 120);
    }
  }
}
