// Clicks by item id, as scripts do them.
#include <catch2/catch.hpp>
#include <chrono>

#include "tests/support/random_run.h"
#include "tests/views/view_support.h"
#include "views/cache_timeline_view.h"
#include "views/inspector_view.h"
#include "views/layer_head_map_view.h"
#include "views/token_strip_view.h"
#include "views/widgets/time_deck.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

struct Stage {
  Stage()
      : a{std::make_shared<const RunRecord>(random_run(3)), false, "A", 1}, context{&a, nullptr, &selection, nullptr} {}
  HeadlessWindow window;
  ShownRun a;
  Selection selection;
  ViewContext context;
};

/// Presses and lets go the right button in the middle of an item.
template <typename Draw>
void right_click(Stage& s, const char* item, const Draw& draw) {
  const auto rect = s.window.items.find(item);
  REQUIRE(rect.has_value());
  ImGuiIO& io = ImGui::GetIO();
  io.MousePos = {rect->centre_x(), rect->centre_y()};
  for (const bool down : {false, true, false, false}) {
    io.MouseDown[ImGuiMouseButton_Right] = down;
    s.window.frame(draw);
  }
}

}  // namespace

TEST_CASE("clicking a token selects it, clicking it again lets it go") {
  Stage s;
  TokenStripView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  s.window.frame(draw);
  s.window.click("strip.token.17", draw);
  CHECK(s.selection.token == 17);
  s.window.click("strip.token.17", draw);
  CHECK(s.selection.token == -1);
}

TEST_CASE("the mouse over a token makes it the hovered one in all views") {
  Stage s;
  TokenStripView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  s.window.frame(draw);
  const auto rect = s.window.items.find("strip.token.23");
  REQUIRE(rect.has_value());
  ImGui::GetIO().MousePos = {rect->centre_x(), rect->centre_y()};
  for (int i = 0; i < 2; ++i) s.window.frame(draw);
  CHECK(s.selection.hovered_token == 23);
  CHECK(s.selection.hover_told);  // the window lets it go once no view says so
}

TEST_CASE("a right click on a token selects it and offers what is done with it") {
  Stage s;
  std::string command;
  s.context.command = [&](const std::string& id) { command = id; };
  TokenStripView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  s.window.frame(draw);
  right_click(s, "strip.token.17", draw);
  CHECK(s.selection.token == 17);
  CHECK(s.window.items.text("token.menu").value_or("").find("token 17") != std::string::npos);
  s.window.click("token.menu.go_to", draw);
  CHECK(s.selection.q == 17);
  right_click(s, "strip.token.17", draw);
  s.window.click("token.menu.pin", draw);
  CHECK(command == "pin.toggle");
}

TEST_CASE("a right click on a head selects it and marks it") {
  Stage s;
  LayerHeadMapView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  for (int i = 0; i < 3; ++i) s.window.frame(draw);
  right_click(s, "map.cell.1.1", draw);
  CHECK(s.selection.layer == 1);
  CHECK(s.selection.kv_head == 1);
  s.window.click("head.menu.mark", draw);
  CHECK(s.selection.heads == HeadSet{{1, 1}});
}

TEST_CASE("each colour button sets its mode") {
  Stage s;
  TokenStripView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  s.window.frame(draw);
  for (int mode : {1, 2, 3, 0}) {
    s.window.click("strip.mode." + std::to_string(mode), draw);
    CHECK(s.selection.colour == static_cast<ColourMode>(mode));
  }
}

TEST_CASE("tokens lie on the screen in reading order without overlap") {
  Stage s;
  TokenStripView view(s.window.services);
  s.window.frame([&] { view.draw(s.context); });
  ItemRect before{};
  int n = 0;
  for (int t = 0; t < s.a.run->n_tokens(); ++t) {
    const auto rect = s.window.items.find("strip.token." + std::to_string(t));
    if (!rect) break;
    if (t > 0) CHECK((rect->y > before.y || (rect->y == before.y && rect->x >= before.x + before.w)));
    before = *rect;
    ++n;
  }
  CHECK(n > 50);
}

TEST_CASE("clicking a cell of the map selects its layer and head") {
  Stage s;
  LayerHeadMapView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  s.window.frame(draw);
  for (int layer : {1, 0}) {
    for (int head : {2, 0, 1}) {
      s.window.click("map.cell." + std::to_string(layer) + "." + std::to_string(head), draw);
      CHECK(s.selection.layer == layer);
      CHECK(s.selection.kv_head == head);
    }
  }
}

TEST_CASE("the map's metric buttons set the metric, and B has cells of its own beside A") {
  Stage s;
  const ShownRun b{std::make_shared<const RunRecord>(random_run(3, {.policy = "streaming:window=60"})), false, "B", 1};
  s.context.b = &b;
  LayerHeadMapView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  s.window.frame(draw);
  s.window.click("map.metric.3", draw);
  CHECK(s.selection.metric == Metric::recall);
  s.window.click("map.b.cell.1.2", draw);
  CHECK(s.selection.layer == 1);
  CHECK(s.selection.kv_head == 2);
  s.window.click("map.compare.2", draw);  // B - A: one map
  // The picture is made again when what it cost before allows it.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (s.window.items.find("map.b.cell.0.0") && std::chrono::steady_clock::now() < until) s.window.frame(draw);
  CHECK_FALSE(s.window.items.find("map.b.cell.0.0").has_value());
  CHECK(s.window.items.find("map.cell.0.0").has_value());
}

TEST_CASE("dragging the time deck scrubs and ends following, the live button follows again") {
  Stage s;
  TimeDeck deck(s.window.services);
  const auto draw = [&] { deck.draw(s.context, 130); };
  s.window.frame(draw);
  CHECK(s.context.q() == s.a.run->n_tokens() - 1);
  s.window.click("timeline.scrub", draw);
  CHECK(s.selection.q.has_value());
  CHECK(s.context.q() == Approx(s.a.run->n_tokens() / 2).margin(1));  // the middle of the bar
  s.window.click("timeline.live", draw);
  CHECK_FALSE(s.selection.q.has_value());
  CHECK(s.context.q() == s.a.run->n_tokens() - 1);
}

TEST_CASE("the contest log lists the head's contests, and clicking one goes there") {
  Stage s;
  CacheTimelineView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  for (int i = 0; i < 2; ++i) s.window.frame(draw);
  std::vector<Contest> expected;
  for (const Contest& c : s.a.run->contests) {
    if (c.layer == 0 && c.kv_head == 0) expected.push_back(c);
  }
  REQUIRE(expected.size() > 3);
  s.selection.q = 0;
  for (int i = 0; i < 2; ++i) s.window.frame(draw);
  CHECK(view.n_contests() == static_cast<int>(expected.size()));
  s.window.click("timeline.contest.2", draw);
  CHECK(s.selection.q == expected[2].q);
  CHECK(s.selection.token == (expected[2].evicted >= 0 ? expected[2].evicted : expected[2].newcomer));
  CHECK(s.selection.q.has_value());
}

TEST_CASE("clicking the occupancy scrubs") {
  Stage s;
  CacheTimelineView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  for (int i = 0; i < 2; ++i) s.window.frame(draw);
  s.window.click("timeline.occupancy", draw);
  CHECK(s.selection.q.has_value());
  CHECK(s.selection.q.value() == Approx(s.a.run->n_tokens() / 2).margin(1));
}

TEST_CASE("clicking a lifeline selects the token under the mouse") {
  Stage s;
  CacheTimelineView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  for (int i = 0; i < 2; ++i) s.window.frame(draw);
  const auto rect = s.window.items.find("timeline.lifelines");
  REQUIRE(rect.has_value());
  const int n = s.a.run->n_tokens();
  // Token 20, seen from the last query: low and at the right.
  ImGui::GetIO().MousePos = {rect->x + rect->w - 2, rect->y + rect->h * (1 - 20.5f / static_cast<float>(n))};
  for (bool down : {false, true, false}) {
    ImGui::GetIO().MouseDown[0] = down;
    s.window.frame(draw);
  }
  CHECK(s.selection.token == 20);
}

TEST_CASE("the inspector's map of heads goes to the head that is clicked") {
  Stage s;
  s.selection.token = 30;
  InspectorView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  for (int i = 0; i < 6; ++i) s.window.frame(draw);  // columns of tables find their width
  int retaining = 0;
  for (int l = 0; l < 2; ++l) retaining += kept_heads(*s.a.run, l, 30, s.context.q());
  CHECK(s.window.items.text("inspector.retained") == "kept in " + std::to_string(retaining) + " of 6 heads");
  s.window.click("inspector.heads", draw);  // the middle: of 2 layers the second, of 3 heads the middle one
  CHECK(s.selection.layer == 1);
  CHECK(s.selection.kv_head == 1);
  const auto map = s.window.items.find("inspector.heads");
  ImGui::GetIO().MousePos = {map->x + 1, map->y + 1};
  s.window.frame(draw);
  const std::string state(state_name(HeadAtQuery(*s.a.run, 0, 0, s.context.q()).state(30)));
  CHECK(s.window.items.text("inspector.head_card") == "Layer 0 · KV head 0: " + state);
  CHECK(s.selection.layer == 1);
}

TEST_CASE("items are found by id in the frame drawn last, and only there") {
  ItemRegistry items;
  items.add("map.cell", 3, 1, {1, 2, 3, 4});
  items.add("map", {0, 0, 9, 9});
  REQUIRE(items.find("map.cell.3.1").has_value());
  CHECK(items.find("map.cell.3.1")->h == 4);
  CHECK(items.find("map")->w == 9);
  CHECK_FALSE(items.find("map.cell.3").has_value());
  CHECK_FALSE(items.find("map.cell.3.11").has_value());
  CHECK(items.ids() == std::vector<std::string>{"map.cell.3.1", "map"});
  items.begin_frame();
  CHECK_FALSE(items.find("map").has_value());
}

TEST_CASE("the strip's figure has the tokens on the screen, for the selected head, in its colour, with B") {
  Stage s;
  const ShownRun b{std::make_shared<const RunRecord>(random_run(3, {.policy = "streaming:window=60"})), true, "B", 1};
  s.context.b = &b;
  s.selection = {.layer = 1, .kv_head = 2, .q = 90, .colour = ColourMode::oracle};
  TokenStripView view(s.window.services);
  s.window.frame([&] { view.draw(s.context); });
  const auto figure = view.figure(s.context);
  REQUIRE(figure);
  TokenStripOptions expected;
  expected.q = 90;
  expected.first = 0;
  expected.count = s.a.run->n_tokens();
  expected.evictable_only = false;
  expected.layer = 1;
  expected.kv_head = 2;
  expected.colour = ColourMode::oracle;
  expected.with_b = expected.preview_b = true;
  CHECK(std::get<TokenStripOptions>(figure->options) == expected);
  CHECK(figure->runs == std::vector{s.a.run, b.run});
}

TEST_CASE("the map's figure is compared as the map is") {
  Stage s;
  const ShownRun b{std::make_shared<const RunRecord>(random_run(3, {.policy = "streaming:window=60"})), false, "B", 1};
  s.context.b = &b;
  LayerHeadMapView view(s.window.services);
  const auto draw = [&] { view.draw(s.context); };
  const auto compared = [&] { return std::get<LayerHeadMapOptions>(view.figure(s.context)->options).compare; };
  s.window.frame(draw);
  CHECK(compared() == MapCompare::side_by_side);
  s.window.click("map.compare.2", draw);
  CHECK(compared() == MapCompare::difference);
  s.window.click("map.compare.0", draw);
  CHECK(compared() == MapCompare::none);
  CHECK(view.figure(s.context)->runs.size() == 1);
}
