// What is clicked stays under the pointer, and what q means comes in sight.

#include <catch2/catch.hpp>

#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/cache_timeline_view.h"
#include "views/inspector_view.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::StartsWith;

namespace {

bool same(const ItemRect& a, const ItemRect& b) { return a.x == b.x && a.y == b.y && a.w == b.w && a.h == b.h; }

}  // namespace

TEST_CASE("The timeline has the same place whether a token is selected or not, however long its sentence is") {
  for (const ImVec2 size : {ImVec2{320, 240}, ImVec2{420, 380}, ImVec2{1600, 900}}) {
    INFO(size.x << " x " << size.y);
    Stage<CacheTimelineView> s(random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"}), {.q = 150}, size);
    s.draw();
    const ItemRect before = *s.window.items.find("timeline.lifelines");
    for (const int token : {1, 30, 60}) {
      s.selection.token = token;
      s.draw();
      CHECK_THAT(s.text("timeline.why"), StartsWith("Token " + std::to_string(token)));
      CHECK(same(*s.window.items.find("timeline.lifelines"), before));
    }
  }
}

TEST_CASE("The grid of heads stays where it is when another head is clicked in it") {
  Stage<InspectorView> s(random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"}), {.token = 30, .q = 150},
                         {300, 900});
  s.draw();
  const ItemRect before = *s.window.items.find("inspector.heads");
  for (int head = 0; head < 3; ++head) {
    s.selection.layer = 1, s.selection.kv_head = head;
    s.draw();
    CHECK(same(*s.window.items.find("inspector.heads"), before));
  }
}

TEST_CASE("The log shows the decision at q or the first behind it, and stays where it was scrolled to by hand") {
  const RunRecord run = random_run(3, {.policy = "sp-kv:threshold=0.25,window=16"});
  Stage<CacheTimelineView> s(run, {.q = 20}, {700, 500});
  const auto row_of = [](int q) {
    return "timeline.contest." + std::to_string(q - 16);
  };  // one a query, from the window on
  s.draw(5);
  CHECK(s.has(row_of(20)));
  CHECK_FALSE(s.has(row_of(140)));
  s.selection.q = 140;
  s.draw(5);
  CHECK_THAT(s.text(row_of(140)), StartsWith("140 | "));
  CHECK_FALSE(s.has(row_of(20)));
  const ItemRect row = *s.window.items.find(row_of(140));
  ImGuiIO& io = ImGui::GetIO();
  io.MousePos = {row.centre_x(), row.centre_y()};
  s.draw(1);
  for (int i = 0; i < 40; ++i) {
    io.MouseWheel = 1;
    s.draw(1);
  }
  io.MouseWheel = 0;
  s.draw(5);
  CHECK(s.has(row_of(20)));
  CHECK_FALSE(s.has(row_of(140)));
}
