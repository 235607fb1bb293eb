// Where hints stand: a control's row, and the lines above and below one of a list, stay in sight.
#include <imgui_internal.h>  // the corners of a window that is drawn

#include <catch2/catch.hpp>

#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/inspector_view.h"
#include "views/view_list.h"
#include "views/widgets/chrome.h"
#include "views/widgets/time_deck.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

const ImVec2 kScreen{800, 600}, kSize{200, 60};
constexpr float kGap = 5;
const ItemRect kWindow{0, 0, 800, 600};

ItemRect hint_at(const ItemRect& item, const ItemRect& window, ImVec2 mouse) {
  const ImVec2 at = hint_place(item, window, kSize, mouse, kScreen, kGap);
  return {at.x, at.y, kSize.x, kSize.y};
}

bool meet(const ItemRect& a, const ItemRect& b) {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/// Corners of the tooltip that is drawn; less than 0: none is.
float corners_of_tooltip() {
  for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows)
    if ((window->Flags & ImGuiWindowFlags_Tooltip) != 0 && window->Active) return window->WindowRounding;
  return -1;
}

}  // namespace

TEST_CASE("A hint stands below the row of its control, above it at the bottom, and beside a list's line") {
  CHECK(hint_at({100, 20, 60, 24}, kWindow, {130, 30}).y == 20 + 24 + kGap);
  CHECK(hint_at({100, 570, 60, 24}, kWindow, {130, 580}).y == 570 - kGap - 60);
  CHECK(hint_at({780, 20, 20, 24}, kWindow, {790, 30}).x == 600);  // within the screen
  const ItemRect line{10, 100, 280, 20}, list{0, 0, 300, 600};
  CHECK(hint_at(line, list, {100, 110}).x == 305);
  CHECK(hint_at(line, list, {100, 110}).y == 100);
  CHECK(hint_at({510, 100, 280, 20}, {500, 0, 300, 600}, {600, 110}).y == 125);  // no room at its right
  const ItemRect picture{0, 50, 800, 500};                                       // its row is where the mouse is
  CHECK(hint_at(picture, kWindow, {400, 200}).y == 200 + 3 * kGap);
}

TEST_CASE("No hint of a view or of the time deck covers a control of its row") {
  Stage<InspectorView> s(random_run(3), {.token = 20});
  s.compare_with(random_run(3, {.policy = "streaming:sinks=4,window=60"}));
  const auto views = make_views(s.window.services);
  TimeDeck deck(s.window.services);
  int n = 0;
  const auto check = [&](const std::function<void()>& draw) {
    s.window.frame(draw);
    s.window.frame(draw);
    for (const std::string& id : s.window.items.ids()) {
      const auto item = s.window.items.find(id);
      if (!item || item->h > 40 || id.starts_with("strip.token") || id.find(".cell") != std::string::npos) continue;
      ImGui::GetIO().MousePos = {item->centre_x(), item->centre_y()};
      s.window.frame(draw);
      s.window.frame(draw);
      const auto hint = s.window.items.find("hint");
      if (!hint) continue;
      ++n;
      INFO(id << ": " << s.text("hint"));
      CHECK_FALSE(meet(*hint, *item));
      CHECK((hint->x + hint->w <= 1600 && hint->y + hint->h <= 900));
      for (const std::string& other : s.window.items.ids()) {
        const auto beside = s.window.items.find(other);
        if (other == "hint" || !beside || beside->h > 40 || beside->y != item->y) continue;
        INFO(other);
        CHECK_FALSE(meet(*hint, *beside));
      }
    }
  };
  for (const auto& view : views) check([&] { view->draw(s.context); });
  check([&] {
    ImGui::Dummy({0, 840});
    deck.draw(s.context, 40);  // at the bottom of the screen
  });
  CHECK(n > 30);
}

TEST_CASE("Behind a press no hint stands over what is beside the control, until the mouse asks again") {
  Stage<InspectorView> s(random_run(3));
  const auto draw = [&] { line_button(s.window.services, "one", "One", "What one is.", false, true); };
  s.window.frame(draw);
  const ItemRect one = *s.window.items.find("one");
  const auto has_hint = [&](float dx) {
    ImGui::GetIO().MousePos = {one.centre_x() + dx, one.centre_y()};
    s.window.frame(draw);
    s.window.frame(draw);
    return s.window.items.find("hint").has_value();
  };
  CHECK(has_hint(0));
  s.window.click("one", draw);
  CHECK_FALSE(has_hint(0));
  CHECK(has_hint(8));
}

TEST_CASE("Hints and the cards of views have the round corners of menus") {
  Stage<InspectorView> s(random_run(3), {.token = 20});
  const std::function<void()> hint = [&] { line_button(s.window.services, "one", "One", "What one is.", false, true); };
  const auto over = [&](const std::string& id, const std::function<void()>& draw) {
    s.window.frame(draw);
    s.window.frame(draw);
    const auto item = s.window.items.find(id);
    INFO(id);
    REQUIRE(item);
    ImGui::GetIO().MousePos = {item->centre_x(), item->centre_y()};
    s.window.frame(draw);
    s.window.frame(draw);
    CHECK(corners_of_tooltip() == s.window.theme.px(6));
    ImGui::GetIO().MousePos = {-1, -1};
    s.window.frame(draw);
  };
  over("one", hint);
  const std::pair<std::string, std::string> cards[] = {{"layer_head_map", "map.cell.1.1"},
                                                       {"token_strip", "strip.token.20"}};
  int n = 0;
  for (const auto& view : make_views(s.window.services)) {
    for (const auto& [id, item] : cards)
      if (view->id() == id) over(item, [&] { view->draw(s.context); }), ++n;
  }
  CHECK(n == 2);
}
