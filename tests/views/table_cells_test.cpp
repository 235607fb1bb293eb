// Tables in narrow views: numbers are whole, and what is cut says so.

#include "views/widgets/table_cells.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/cache_timeline_view.h"
#include "views/widgets/chrome.h"

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

TEST_CASE("A text that is too long ends in an ellipsis, or has its end after it, and fits its room in any script") {
  HeadlessWindow window;
  const std::string text = "first words of a line and then many more of them, 4 heads, window 32";
  std::string hebrew;
  for (int i = 0; i < 60; ++i) hebrew += "\u05d0\u05e9";
  window.frame([&] {
    const auto width = [](const std::string& shown) { return ImGui::CalcTextSize(shown.c_str()).x; };
    const std::string cut = cut_to(text, 200), both = cut_middle_to(text, 200);
    CHECK(width(cut) <= 200);
    CHECK(width(cut) > 180);
    CHECK(width(both) <= 200);
    CHECK(width(both) > 180);
    CHECK(cut.starts_with("first words"));
    CHECK(cut.ends_with("…"));
    CHECK(both.starts_with("first words"));
    CHECK(both.ends_with("window 32"));
    CHECK(cut_middle_to("short", 200) == "short");
    CHECK(cut_to(hebrew, 200).ends_with("…"));
    CHECK(width(cut_to(hebrew, 200)) <= 200);
    CHECK(width(cut_middle_to(hebrew, 200)) <= 200);
  });
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

TEST_CASE("In a timeline of three in a row the log has query, token and oracle whole, and its hint the other columns") {
  const std::string policy = GENERATE("kvpop:budget=40,sinks=4,window=16", "threshold:threshold=0.2,sinks=4,window=16",
                                      "kvpop:budget=40,sinks=4,window=16,capacity=pooled");
  INFO(policy);
  const RunRecord run = random_run(3, {.policy = policy});
  Stage<CacheTimelineView> s(run, {.layer = 1, .kv_head = 2, .q = 120});
  const auto draw = [&](float width) {
    for (int i = 0; i < 4; ++i) {
      s.window.frame([&] {
        ImGui::BeginChild("narrow", {width, 700});
        s.view.draw(s.context);
        ImGui::EndChild();
      });
    }
    const auto ids = s.window.items.ids();
    const auto row =
        std::ranges::find_if(ids, [](const std::string& id) { return id.starts_with("timeline.contest."); });
    REQUIRE(row != ids.end());
    return *row;
  };
  const std::size_t n_wide = cells_of(s.text(draw(1200))).size();
  CHECK(n_wide >= 4);
  const std::string id = draw(213);
  const ItemRect row = *s.window.items.find(id);
  const std::vector<std::string> cells = cells_of(s.text(id));
  REQUIRE(cells.size() == 3);
  const std::string written = s.window.written_in(row);
  CHECK_THAT(written, Contains(without_blanks(cells[0])) && Contains(without_blanks(cells[2])));
  CHECK_THAT(written, Contains(without_blanks(cells[1])) || Contains("…"));
  ImGui::GetIO().MousePos = {row.x + 0.5f * row.w, row.centre_y()};
  draw(213);
  CHECK_THAT(s.text("hint"), Contains(policy.starts_with("threshold") ? "decision: " : "evicted: "));
}

TEST_CASE("Lines are broken at spaces: a number stays whole") {
  Stage<CacheTimelineView> s(random_run(3));
  const std::string text =
      "Token 7 left layer 0 head 1 at query 90: it scored 1.52 and 11.25 was the least, 0.75 more.";
  s.window.frame([&] {
    for (float room = 60; room < 400; room += 7) {
      std::string lines = in_lines(text, room, 100);
      CHECK(std::ranges::count(lines, '\n') > 0);
      std::ranges::replace(lines, '\n', ' ');
      CHECK(lines == text);
    }
    CHECK_THAT(in_lines(text, 100, 2), Catch::EndsWith("…"));
    CHECK(in_lines(text, 100, 2).find('\n') != std::string::npos);
    CHECK(in_lines("", 100, 2).empty());
  });
}

TEST_CASE("A list that has less room than what was chosen of it says so, and has it whole where there is room") {
  test::HeadlessWindow window(true, {400, 200});
  const std::string_view names[] = {"KVpop heads (27 of 90 global)"};
  int chosen = 0;
  const auto written = [&](float width) {
    window.frame([&] { drop_down(window.services, "gate", names, {}, chosen, width); });
    CHECK(window.items.text("gate") == names[0]);
    return window.written_in("gate");
  };
  CHECK_THAT(written(140), Catch::StartsWith("KVpop") && Catch::EndsWith("…"));
  CHECK(written(300) == without_blanks(std::string(names[0])));
}
