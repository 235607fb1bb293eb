// What is written in the layer x head map has its room: no number, caption or badge lies over another.

#include <catch2/catch.hpp>
#include <set>

#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/layer_head_map_view.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

/// From the top of the capitals to the base line.
Box box_of(const Text& text) {
  const double w = text_width(text.utf8, text.role, text.size), h = 0.72 * text.size;
  const double x = text.at.x - (text.anchor == Anchor::start ? 0 : text.anchor == Anchor::middle ? w / 2 : w);
  const double y = text.at.y - (text.baseline == Baseline::alphabetic ? h
                                : text.baseline == Baseline::middle   ? h / 2
                                                                      : -0.2 * text.size);
  return {x, y, w, h};
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

void check_apart(const Figure& figure) {
  std::vector<Text> texts;
  for (const Primitive& item : figure.items) {
    if (const auto* text = std::get_if<Text>(&item); text && text->angle == 0) texts.push_back(*text);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      CAPTURE(texts[i].utf8, texts[k].utf8);
      CHECK_FALSE(overlap(box_of(texts[i]), box_of(texts[k])));
    }
  }
}

Figure map_of(const std::vector<RunRecord>& runs, const LayerHeadMapOptions& options, double width) {
  std::vector<const RunRecord*> pointers;
  for (const RunRecord& run : runs) pointers.push_back(&run);
  FigureStyle style;
  style.width = width, style.height = 260;
  style.tick_size = 11, style.label_size = 12;  // as in the window
  return layer_head_map_figure(pointers, options, style).figure;
}

constexpr const char* kPolicy = "kvpop:budget=40,sinks=4,window=16";

RunRecord parting_at(int first) {
  RunRecord run = random_run(3, {.policy = "streaming:sinks=4,window=40"});
  for (auto t = static_cast<std::size_t>(first); t < run.ids.size(); ++t) run.ids[t] += 1;
  return run;
}

/// The map view where it has this room.
struct Room {
  Room(RunRecord b, ImVec2 room, Selection selection) : s(random_run(3, {.policy = kPolicy}), selection), size(room) {
    s.compare_with(std::move(b));
  }
  void draw(int frames = 4) {
    for (int i = 0; i < frames; ++i) s.window.frame([&] { draw_child(); });
  }
  void draw_child() {
    ImGui::BeginChild("room", size);
    s.view.draw(s.context);
    ImGui::EndChild();
  }
  /// From the first cell of A to the last.
  ItemRect map() {
    const auto first = s.window.items.find("map.cell.0.0"), last = s.window.items.find("map.cell.1.2");
    if (!first || !last) return {};
    return {first->x, std::min(first->y, last->y), last->x + last->w - first->x,
            std::abs(last->y - first->y) + first->h};
  }
  Stage<LayerHeadMapView> s;
  ImVec2 size;
};

// What the layouts leave at 1280 x 720: Explore, and one of the three views of Compare; then windows that are larger.
const ImVec2 kRooms[] = {{232, 260}, {162, 260}, {300, 500}, {700, 700}};
const ImVec2 kExplore = kRooms[0], kCompare = kRooms[1];

}  // namespace

TEST_CASE("the badge of a preview as B has a row of its own, above the captions and inside the picture") {
  const std::vector<RunRecord> runs = {random_run(3), random_run(3, {.policy = "streaming:window=60"})};
  const MapCompare compare = GENERATE(MapCompare::side_by_side, MapCompare::difference);
  for (double width = 200; width < 500; width += 50) {
    CAPTURE(width);
    const Figure figure = map_of(runs, {.compare = compare, .preview_b = true, .name_b = "preview of A"}, width);
    check_apart(figure);
    for (const Primitive& item : figure.items) {
      const auto* text = std::get_if<Text>(&item);
      if (!text || text->utf8 != kPreviewBadge) continue;
      CHECK(box_of(*text).x >= 0);
      CHECK(box_of(*text).y >= 1);
    }
  }
}

TEST_CASE("a long name of a run or its gate is cut where the next map begins, or the picture ends") {
  const std::vector<RunRecord> runs = {random_run(3), random_run(3, {.policy = "streaming:window=60"})};
  const bool lock = GENERATE(true, false);
  for (double width = 200; width < 700; width += 50) {
    CAPTURE(width, lock);
    const Figure figure = map_of(runs,
                                 {.compare = MapCompare::side_by_side,
                                  .name_a = "A the third of ten by gate wg-kv-0.003",
                                  .name_b = "preview of A by gate wg-kv-0.03é",
                                  .lock = lock},
                                 width);
    check_apart(figure);
    for (const Primitive& item : figure.items) {
      const auto* text = std::get_if<Text>(&item);
      if (text && text->role == FontRole::bold) CHECK(box_of(*text).right() <= width);
    }
  }
}

TEST_CASE("the axis by layer has two numbers where there is room for them, and one where there is not") {
  const std::vector<RunRecord> runs = {random_run(3, {.n_kv_heads = 3}),
                                       random_run(3, {.policy = "streaming:window=60", .n_kv_heads = 3})};
  const MapCompare compare = GENERATE(MapCompare::none, MapCompare::difference);
  const std::vector<RunRecord> shown(runs.begin(), runs.begin() + (compare == MapCompare::none ? 1 : 2));
  for (double width = 180; width < 700; width += 20) {
    CAPTURE(width);
    check_apart(map_of(shown, {.metric = Metric::recall, .compare = compare, .fit = true}, width));
  }
}

TEST_CASE("where the window is small the map of A and B whose tokens part has room for its cells") {
  const ImVec2 size = kRooms[GENERATE(0, 1)];
  const Metric metric = GENERATE(Metric::density, Metric::recall);
  const std::int32_t q = GENERATE(90, 150);
  CAPTURE(size.x, static_cast<int>(metric), q);
  Room room(parting_at(100), size, {.q = q, .metric = metric});
  room.draw();
  CHECK(room.map().h > 30);
  CHECK(room.s.has("map.replay"));
  CHECK(room.s.has("map.go_to_common"));
  std::set<int> rows;  // of buttons for mode, scale and order
  for (const std::string& id : room.s.window.items.ids()) {
    for (const char* item :
         {"map.compare", "map.full", "map.fit", "map.lock", "map.sort", "map.by_layer", "map.more"}) {
      if (id.starts_with(item)) rows.insert(static_cast<int>(room.s.window.items.find(id)->centre_y()));
    }
  }
  CHECK(rows.size() <= 2);
  for (const std::string& id : room.s.window.items.ids()) {
    if (!id.starts_with("map.") || id.starts_with("map.cell") || id.starts_with("map.b.cell")) continue;
    CAPTURE(id);
    const ItemRect item = *room.s.window.items.find(id);
    CHECK(item.x + item.w <= room.size.x + 16);
  }
}

TEST_CASE("in little room a note is one line that is cut, its item and its hint have the whole of it") {
  Room room(parting_at(100), kExplore, {.q = 150, .metric = Metric::recall});
  room.draw();
  const std::string whole = "Different tokens from 100 on: each map is of its run's own text.";
  CHECK(room.s.text("map.parted") == whole);
  const ItemRect line = *room.s.window.items.find("map.parted");
  CHECK(line.h < 20);
  CHECK_THAT(room.s.window.written_in("map.parted"), Catch::StartsWith("Differenttokens") && Catch::EndsWith("…"));
  ImGui::GetIO().MousePos = {line.centre_x(), line.centre_y()};
  room.draw();
  CHECK(room.s.text("hint") == whole);
}

TEST_CASE("scrubbing over the first token that differs, or over the end of the shorter run, does not move the map") {
  const ImVec2 size = kRooms[GENERATE(0, 1, 2, 3)];
  const Metric metric = GENERATE(Metric::density, Metric::recall);
  const RunRecord b =
      GENERATE(parting_at(100), random_run(3, {.policy = "kvpop:budget=80,sinks=4,window=16", .n_new = 20}));
  CAPTURE(size.x, size.y, static_cast<int>(metric), b.n_tokens());
  Room room(b, size, {.q = 90, .metric = metric});
  room.draw();
  const ItemRect before = room.map();
  CHECK(before.h > 30);
  for (const std::int32_t q : {0, 99, 100, 139, 140, 179}) {
    CAPTURE(q);
    room.s.selection.q = q;
    room.draw();
    const ItemRect now = room.map();
    CHECK((now.x == before.x && now.y == before.y && now.h == before.h));
  }
}

TEST_CASE("buttons of the map that have no room in their row open from the one at its end, and work there") {
  Room room(parting_at(100), kCompare, {.q = 90});
  room.draw();
  REQUIRE(room.s.has("map.more"));
  CHECK_FALSE(room.s.has("map.by_layer"));
  room.s.window.click("map.more", [&] { room.draw_child(); });
  REQUIRE(room.s.has("map.by_layer"));
  room.s.window.click("map.by_layer", [&] { room.draw_child(); });
  CHECK(room.s.selection.map.by_layer);
  room.size = {700, 700};
  room.draw();
  CHECK_FALSE(room.s.has("map.more"));
  CHECK(room.s.text("map.by_layer") == "on");
}
