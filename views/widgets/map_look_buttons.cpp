#include "views/widgets/map_look_buttons.h"

#include <imgui.h>

#include <functional>
#include <string_view>
#include <vector>

#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

constexpr std::string_view kMore = "...";
constexpr char kUnmark[] = "map.unmark";

struct LookButton {
  const char* item;
  std::string_view label, hint;
  bool on;
  std::function<void(MapLook&)> press;
  bool dead = false;
};

void forget_thumbs(MapLook& look) { look.clip = look.clip_b = {}; }

std::vector<LookButton> buttons_of(const MapLook& look, bool compared, const std::string& marked) {
  const bool beside = look.compare == MapCompare::side_by_side;
  const bool thumbs = look.clip.on || look.clip_b.on;
  std::vector<LookButton> buttons = {
      {"map.full", "100 %", "Scale colours over the whole range, 0 to 1 for a share", !look.fit && !thumbs,
       [](MapLook& now) { now.fit = false, forget_thumbs(now); }},
      {"map.fit", "Fit",
       "Scale colours from the smallest value to the largest. Drag the thumbs on the colour bar to narrow the range",
       look.fit, [](MapLook& now) { now.fit = true, forget_thumbs(now); }}};
  if (compared)
    buttons.push_back({"map.lock", "Lock",
                       beside ? "Use one scale for A and B. Off: one scale each" : "Only one map, so only one scale",
                       beside && look.lock,
                       [](MapLook& now) {
                         now.lock = !now.lock;
                         if (!now.lock) now.fit = true;  // what two scales are for
                         forget_thumbs(now);
                       },
                       !beside});
  buttons.push_back({"map.sort", "Sort",
                     "Sort the heads of each layer by value, largest on the left (A's values when two maps are shown)",
                     look.sort, [](MapLook& now) { now.sort = !now.sort; }});
  buttons.push_back({"map.by_layer", "By layer",
                     "Divide each layer by its largest value, to compare the heads within a layer", look.by_layer,
                     [](MapLook& now) { now.by_layer = !now.by_layer, forget_thumbs(now); }});
  if (!marked.empty()) buttons.push_back({kUnmark, "All heads", marked, true, [](MapLook&) {}});
  return buttons;
}

/// How many of them fit in one row, with room for what opens the others.
std::size_t n_in_row(const ViewServices& services, const std::vector<LookButton>& buttons, float room) {
  const float gap = services.theme->px(2);
  const auto width_of = [&](std::string_view label) {
    return ImGui::CalcTextSize(label.data(), label.data() + label.size()).x + 2 * ImGui::GetStyle().FramePadding.x +
           gap;
  };
  float all = 0, used = width_of(kMore) + 2;
  for (const LookButton& button : buttons) all += width_of(button.label);
  if (all + 2 < room) return buttons.size();
  std::size_t n = 0;
  while (n < buttons.size() && used + width_of(buttons[n].label) < room) used += width_of(buttons[n++].label);
  return n;
}

bool draw_button(const ViewServices& services, const LookButton& button, MapLook& look, bool first) {
  ImGui::BeginDisabled(button.dead);
  const bool pressed = line_button(services, button.item, button.label, button.hint, button.on, first);
  ImGui::EndDisabled();
  if (pressed) button.press(look);
  return pressed;
}

/// From here to the right edge on the line of the item before, if that leaves as much as `...` and one button more.
float room_beside(const ViewServices& services) {
  const float right = right_edge_on_screen();
  const float room = right - ImGui::GetItemRectMax().x - services.theme->px(2);
  const float least =
      ImGui::CalcTextSize(kMore.data()).x + 2 * ImGui::GetStyle().FramePadding.x + services.theme->px(4);
  return room > least ? room : 0;
}

}  // namespace

bool draw_look_buttons(const ViewServices& services, MapLook& look, const LookRow& row) {
  const FontScope small(services.theme->fonts.small);
  const std::vector<LookButton> buttons = buttons_of(look, row.compared, row.marked);
  const float beside = row.one_row && row.compared ? room_beside(services) : 0;
  const float room = beside > 0 ? beside : ImGui::GetContentRegionAvail().x;
  const std::size_t n = row.one_row ? n_in_row(services, buttons, room) : buttons.size();
  const bool first = beside == 0;
  bool unmarks = false;
  const auto draw = [&](const LookButton& button, bool begins) {
    const bool pressed = draw_button(services, button, look, begins);
    if (button.item == kUnmark) services.items->add_text("map.marked", last_item(), row.marked);
    unmarks |= pressed && button.item == kUnmark;
    return pressed;
  };
  for (std::size_t i = 0; i < n; ++i) draw(buttons[i], first && i == 0);
  if (n == buttons.size()) return unmarks;
  bool on = false;  // one of those that are not in sight
  for (std::size_t i = n; i < buttons.size(); ++i) on = on || buttons[i].on;
  if (line_button(services, "map.more", kMore, "More map options", on, first && n == 0)) ImGui::OpenPopup("map.more");
  if (!ImGui::BeginPopup("map.more")) return unmarks;
  for (std::size_t i = n; i < buttons.size(); ++i) {
    if (draw(buttons[i], true)) ImGui::CloseCurrentPopup();
  }
  ImGui::EndPopup();
  return unmarks;
}

}  // namespace kvscope::views
