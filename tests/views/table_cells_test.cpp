// Tables in narrow views: numbers are whole, and what is cut says so.

#include "views/widgets/table_cells.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/cache_timeline_view.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;
using Catch::Contains;

namespace {

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  for (std::size_t at = 0; at <= row.size();) {
    const std::size_t end = std::min(row.find(" | ", at), row.size());
    cells.push_back(row.substr(at, end - at));
    at = end + 3;
  }
  return cells;
}

std::string without_blanks(std::string text) {
  std::erase(text, ' ');
  return text;
}

}  // namespace

TEST_CASE("Columns have what they need and a part of what is over, and where there is less the wide ones give") {
  const std::vector<float> wide = share_room({10, 30, 20}, 120), narrow = share_room({40, 200, 150, 50}, 290);
  CHECK(wide == std::vector<float>{30, 50, 40});
  CHECK(narrow == std::vector<float>{40, 100, 100, 50});
}

TEST_CASE(
    "In a narrow timeline the numbers of the log are whole, and a text that is cut has an ellipsis and its hint") {
  const RunRecord run = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16,capacity=pooled"});
  Stage<CacheTimelineView> s(run, {.layer = 1, .kv_head = 2, .q = 120});
  const auto draw = [&](int frames) {
    for (int i = 0; i < frames; ++i) {
      s.window.frame([&] {
        ImGui::BeginChild("narrow", {310, 700});
        s.view.draw(s.context);
        ImGui::EndChild();
      });
    }
  };
  draw(4);
  const ItemRect row = *s.window.items.find("timeline.contest.0");
  const std::vector<std::string> cells = cells_of(s.text("timeline.contest.0"));
  REQUIRE(cells.size() == 5);  // query, evicted, score, lowest kept, oracle
  const std::string written = s.window.written_in(row);
  for (const std::size_t number : {0, 2, 3, 4}) CHECK_THAT(written, Contains(without_blanks(cells[number])));
  CHECK_THAT(written, Contains("…") && !Contains(without_blanks(cells[1])));
  ImGui::GetIO().MousePos = {row.x + 0.25f * row.w, row.centre_y()};
  draw(3);
  CHECK(s.text("hint") == cells[1]);
}
