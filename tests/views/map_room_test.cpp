// What is written in the layer x head map has its room: no number, caption or badge lies over another.

#include <catch2/catch.hpp>
#include <map>
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

/// Standing words among them, all inside the figure.
void check_all_apart(const Figure& figure) {
  std::vector<std::pair<Box, std::string>> texts;
  for (const Primitive& item : figure.items) {
    const auto* text = std::get_if<Text>(&item);
    if (text == nullptr) continue;
    const Box lying = box_of(*text), standing{text->at.x - lying.h / 2, text->at.y - lying.w / 2, lying.h, lying.w};
    texts.emplace_back(text->angle == 0 ? lying : standing, text->utf8);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto& [box, words] = texts[i];
    CAPTURE(words);
    CHECK(box.x >= -0.5);
    CHECK(box.y >= -0.5);
    CHECK(box.right() <= figure.width + 0.5);
    CHECK(box.bottom() <= figure.height + 0.5);
    for (std::size_t k = 0; k < i; ++k) {
      CAPTURE(texts[k].second);
      CHECK_FALSE(overlap(box, texts[k].first));
    }
  }
}

Figure map_of(const std::vector<RunRecord>& runs, const LayerHeadMapOptions& options, double width,
              double height = 260) {
  std::vector<const RunRecord*> pointers;
  for (const RunRecord& run : runs) pointers.push_back(&run);
  FigureStyle style;
  style.width = width, style.height = height;
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
  float width_of(const std::string& cells) {
    const auto first = s.window.items.find(cells + ".0.0"), last = s.window.items.find(cells + ".0.2");
    return first && last ? last->x + last->w - first->x : 0;
  }
  Stage<LayerHeadMapView> s;
  ImVec2 size;
};

// What the layouts leave at 1280 x 720: Explore, and one of the three views of Compare; then windows that are larger.
const ImVec2 kRooms[] = {{252, 221}, {214, 221}, {300, 500}, {700, 700}};
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
                                  .name_b = "preview of A with gate wg-kv-0.03é",
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

// They were 38 and 20 pixels wide, their titles lay over each other, and the bar's over the next view.
TEST_CASE(
    "at 1280 x 720 the maps of A and B can be told apart in Explore and in Compare, and nothing lies on anything") {
  const int which = GENERATE(0, 1);
  Room room(parting_at(100), kRooms[which], {.q = 150});
  room.draw();
  for (const char* cells : {"map.cell", "map.b.cell"}) {
    CAPTURE(which, cells);
    CHECK(room.width_of(cells) >= (which == 0 ? 90 : 70));
    CHECK(room.map().h >= 70);
  }
  std::vector<std::pair<std::string, ItemRect>> items;
  for (const std::string& id : room.s.window.items.ids()) {
    if (id.starts_with("map.bar") || !id.starts_with("map")) continue;  // a thumb is at its bar
    items.emplace_back(id, *room.s.window.items.find(id));
  }
  CHECK(items.size() > 12);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ItemRect& a = items[i].second;
    CAPTURE(items[i].first);
    CHECK(a.y + a.h <= room.size.y + 16);
    for (std::size_t k = 0; k < i; ++k) {
      const ItemRect& b = items[k].second;
      CAPTURE(items[k].first);
      CHECK_FALSE(
          (a.x + 0.5f < b.x + b.w && b.x + 0.5f < a.x + a.w && a.y + 0.5f < b.y + b.h && b.y + 0.5f < a.y + a.h));
    }
  }
}

TEST_CASE(
    "in a picture of any size no word of the maps lies on another or leaves it, and KV head stands once or apart") {
  const std::vector<RunRecord> runs = {random_run(3), random_run(3, {.policy = "streaming:window=60"})};
  const MapCompare compare = GENERATE(MapCompare::side_by_side, MapCompare::difference);
  const bool sort = GENERATE(false, true), by_layer = GENERATE(false, true);
  for (double width = 120; width < 420; width += 20) {
    for (double height = 80; height < 280; height += 40) {
      CAPTURE(width, height, sort, by_layer);
      LayerHeadMapOptions options{.metric = Metric::mean_recall, .compare = compare, .sort = sort};
      options.by_layer = by_layer, options.histogram = true;
      const Figure figure = map_of(runs, options, width, height);
      check_all_apart(figure);
      if (width >= 200) CHECK(figure.panel("map")->box.w >= (compare == MapCompare::difference ? 90 : 60));
    }
  }
}

TEST_CASE("what the colours are of is the hint of a bar that has no room for its title") {
  Room room(parting_at(100), kExplore, {.q = 90, .metric = Metric::mass_kept});
  room.draw();
  const ItemRect bar = *room.s.window.items.find("map.bar");
  ImGui::GetIO().MousePos = {bar.centre_x(), bar.centre_y()};
  room.draw();
  CHECK(room.s.text("hint") == metric_info(Metric::mass_kept).title);
  room.size = {700, 700};
  room.draw(30);
  const ItemRect titled = *room.s.window.items.find("map.bar");
  ImGui::GetIO().MousePos = {titled.centre_x(), titled.centre_y()};
  room.draw();
  CHECK_FALSE(room.s.has("hint"));
}

TEST_CASE("the look buttons stay where they are from A | B to B - A") {
  for (float width = 180; width < 760; width += 20) {
    for (const float height : {221.f, 500.f}) {
      CAPTURE(width, height);
      Room room(random_run(3, {.policy = "streaming:sinks=4,window=40"}), {width, height}, {.q = 90});
      room.draw();
      std::map<std::string, ItemRect> before;
      const auto look = [&] {
        std::map<std::string, ItemRect> now;
        for (const char* id : {"map.full", "map.fit", "map.lock", "map.sort", "map.by_layer", "map.more"}) {
          if (const auto item = room.s.window.items.find(id)) now[id] = *item;
        }
        return now;
      };
      before = look();
      CHECK(before.size() >= 1);
      room.s.selection.map.compare = MapCompare::difference;
      room.draw();
      const auto after = look();
      CHECK(after.size() == before.size());
      for (const auto& [id, item] : after) {
        CAPTURE(id);
        CHECK((item.x == before[id].x && item.y == before[id].y && item.w == before[id].w));
      }
    }
  }
}

TEST_CASE("in little room a note is one line that is cut, its item and its hint have the whole of it") {
  Room room(parting_at(100), kExplore, {.q = 150, .metric = Metric::recall});
  room.draw();
  const std::string whole = "Texts diverge at token 100: each map uses its own run's text.";
  CHECK(room.s.text("map.parted") == whole);
  const ItemRect line = *room.s.window.items.find("map.parted");
  CHECK(line.h < 20);
  CHECK_THAT(room.s.window.written_in("map.parted"), Catch::StartsWith("Textsdiverge") && Catch::EndsWith("…"));
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
