#include "app/window/cockpit.h"

#include <imgui_internal.h>  // BringWindowToDisplayFront

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "app/command/layouts.h"
#include "app/window/frame_times.h"
#include "app/window/keyboard_focus.h"
#include "app/window/view_title.h"
#include "app/window/welcome.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/scrolled.h"

namespace kvscope::app {
namespace {

constexpr float kGap = 6;                                  // design pixels between regions; where the splitters are
constexpr float kLeastOfViews = 360, kLeastOfThree = 640;  // widths beside which the inspector has a place
constexpr float kBarHeight = 54, kTitleHeight = 30;
constexpr float kCardPadding = 14;   // at the sides
constexpr float kMostOfLog = 0.15f;  // of the height: at 720 pixels a map still has room above it
constexpr float kRoomForAnswer = 820, kRoomBesideChat = 1100, kAnswerHeight = 150;
// One that appears, as views do with the first token and a message at any time, takes no keys from who types.
constexpr ImGuiWindowFlags kRegion = ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                                     ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse |
                                     ImGuiWindowFlags_NoFocusOnAppearing;

// A region is a separate window: it scrolls alone, and a popup lies over all of them.
class Region {
 public:
  Region(Panel& panel, const char* name, ImVec2 at, ImVec2 size, bool card, bool scroll = false) {
    ImGui::SetNextWindowPos(at);
    ImGui::SetNextWindowSize({std::max(1.f, size.x), std::max(1.f, size.y)});
    ImGui::PushStyleColor(ImGuiCol_WindowBg,
                          views::to_imgui(card ? panel.theme().palette.panel : panel.theme().palette.background));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, card ? panel.px(6) : 0);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding,
                        card ? ImVec2{panel.px(kCardPadding), panel.px(10)} : ImVec2{0, 0});
    // A bar that comes lies in the padding: what it scrolls is laid out as without it, and ends where it cuts.
    const float padding = panel.px(kCardPadding), bar = ImGui::GetStyle().ScrollbarSize;
    const float width = size.x - 2 * padding - std::max(0.f, bar - std::floor(padding / 2));
    if (scroll) ImGui::SetNextWindowContentSize({std::max(1.f, width), 0});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowMinSize, {1, 1});  // the default of 32 would let splitters cover the views
    ImGui::Begin(name, nullptr,
                 scroll ? kRegion & ~(ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse) : kRegion);
    ImGui::PopStyleVar(3);  // of this window alone: what opens from it has the style of popups
    ImGui::PopStyleColor();
  }
  ~Region() {
    views::end_content_at_cursor();
    ImGui::End();
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
};

// Drags `value` (design pixels, or a share if `whole` is given). Vertical: moves left and right.
void splitter(Panel& panel, const char* id, ImVec2 at, ImVec2 size, bool vertical, float direction, float& value,
              float lo, float hi, float initial, float whole = 0) {
  const Region region(panel, id, at, size, false);
  ImGui::InvisibleButton(id, {std::max(1.f, size.x), std::max(1.f, size.y)});
  const bool hovered = ImGui::IsItemHovered(), active = ImGui::IsItemActive();
  if (hovered || active) {
    ImGui::SetMouseCursor(vertical ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
    const auto& palette = panel.theme().palette;
    const ImVec2 middle{at.x + size.x / 2, at.y + size.y / 2};
    const float half = panel.px(1.5f);
    ImGui::GetWindowDrawList()->AddRectFilled(
        vertical ? ImVec2{middle.x - half, at.y} : ImVec2{at.x, middle.y - half},
        vertical ? ImVec2{middle.x + half, at.y + size.y} : ImVec2{at.x + size.x, middle.y + half},
        views::to_imgui(active ? palette.accent : palette.border));
  }
  if (active) {
    const ImVec2 delta = ImGui::GetIO().MouseDelta;
    const float moved = direction * (vertical ? delta.x : delta.y);
    value = std::clamp(value + (whole > 0 ? moved / whole : moved / panel.theme().scale), lo, hi);
  }
  if (hovered && ImGui::IsMouseDoubleClicked(0)) value = initial;
  panel.item(id);
}

std::vector<float>& cuts_of(CockpitSizes& sizes, views::Place place) {
  switch (place) {
    case views::Place::strip:
      return sizes.cuts_strip;
    case views::Place::main:
      return sizes.cuts_main;
    case views::Place::side:
      break;
  }
  return sizes.cuts_side;
}

// What was under the pointer is so no longer once no view says it is; those drawn before know by the next frame.
void end_hover(Panel& panel, views::Selection& selection) {
  if (std::exchange(selection.hover_told, false) || selection.hovered_token < 0) return;
  selection.hovered_token = -1;
  if (panel.services.wake) panel.services.wake();
}

bool is_message_line(const Panel& panel) { return !panel.session.messages().banners().empty() && !panel.all_messages; }

float message_width(const Panel& panel) { return std::min(panel.px(620), ImGui::GetIO().DisplaySize.x / 2); }

}  // namespace

void Cockpit::draw_left(Panel& panel, ImVec2 at, ImVec2 size) {
  // Where there is room the answer is below, whatever is scrolled above; else it comes after the settings. A chat,
  // which shows A's answer itself, would leave the policy no more than its title.
  const float least = panel.session.parameters().raw ? kRoomForAnswer : kRoomBesideChat;
  const bool below = has_answer_panel(panel) && size.y >= panel.px(least);
  const float gap = panel.px(kGap), answer = below ? panel.px(kAnswerHeight) : 0;
  // The runs are in sight however long the settings are: in what these leave, or else in up to a quarter of the height,
  // which of 720 pixels leaves the policy some eight lines below the prompt.
  const float room = size.y - gap - (below ? answer + gap : 0);
  const float settings = std::floor(std::min(settings_height_, room - std::min(runs_height_, room / 4)));
  {
    const Region region(panel, "left", at, {size.x, settings}, true, true);
    draw_prompt_panel(panel);
    draw_policy_panel(panel);
    settings_height_ = ImGui::GetCursorPosY() + ImGui::GetStyle().WindowPadding.y;
    if (!below) draw_answer_panel(panel);
  }
  {
    const Region region(panel, "runs", {at.x, at.y + settings + gap}, {size.x, room - settings}, true, true);
    draw_runs_panel(panel);
    runs_height_ = ImGui::GetCursorPosY() + ImGui::GetStyle().WindowPadding.y;
  }
  if (!below) return;
  const Region region(panel, "answer", {at.x, at.y + size.y - answer}, {size.x, answer}, true);
  draw_answer_panel(panel);
}

void Cockpit::draw_view(Panel& panel, views::ViewContext& context, const views::ViewList& views, views::View& view,
                        ImVec2 at, ImVec2 size) {
  const Region region(panel, view.id(), at, size, true);
  if (ImGui::IsWindowHovered(ImGuiHoveredFlags_RootAndChildWindows | ImGuiHoveredFlags_AllowWhenBlockedByActiveItem))
    under_mouse_ = view.id();
  try {
    draw_view_title(panel, context, views, view, size.x);
    ImGui::SetCursorPosY(panel.px(kTitleHeight + 6));
    // What is beside the canvas has as many lines as there is to say, and its title stays where it is.
    std::optional<views::Scrolled> scrolled;
    if (view.place() == views::Place::side) scrolled.emplace(panel.theme(), view.id(), size.x, panel.px(kCardPadding));
    view.draw(context);
  } catch (const std::exception& error) {  // one panel's fault; the others go on
    views::wrapped_text_in(panel.theme().palette.bad, std::string("This view cannot be drawn: ") + error.what());
  }
}

// The views of a place side by side, in the rail one above the other, with a splitter between neighbours.
void Cockpit::draw_place(Panel& panel, views::ViewContext& context, const views::ViewList& views, views::Place place,
                         ImVec2 at, ImVec2 size) {
  std::vector<views::View*> here;
  if (place == views::Place::main) here = main_row(panel.ui, views);
  for (const auto& view : views) {
    if (place != views::Place::main && view->place() == place) here.push_back(view.get());
  }
  if (here.empty()) return;
  const bool across = place != views::Place::side;
  const std::size_t n = here.size();
  const auto initial = [&](std::size_t i) {
    return place == views::Place::main ? end_at_first(here, i) : static_cast<float>(i + 1) / static_cast<float>(n);
  };
  std::vector<float>& kept = cuts_of(panel.ui.sizes, place);
  std::vector<float> cuts = kept;
  if (cuts.size() + 1 != n) cuts.clear();  // other views than before: shares anew
  for (std::size_t i = cuts.size(); i + 1 < n; ++i) cuts.push_back(initial(i));
  const std::vector<float> drawn = cuts;
  const float gap = panel.px(kGap), room = (across ? size.x : size.y) - gap * static_cast<float>(n - 1);
  const float least = 0.4f / static_cast<float>(n);  // share of the smallest view
  float from = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float to = i + 1 < n ? std::floor(room * cuts[i]) : room, start = from + gap * static_cast<float>(i);
    const auto slice = [&](float offset) { return across ? ImVec2{at.x + offset, at.y} : ImVec2{at.x, at.y + offset}; };
    const auto extent = [&](float length) { return across ? ImVec2{length, size.y} : ImVec2{size.x, length}; };
    draw_view(panel, context, views, *here[i], slice(start), extent(to - from));
    if (i + 1 < n) {
      const float lo = (i > 0 ? cuts[i - 1] : 0) + least, hi = (i + 2 < n ? cuts[i + 1] : 1) - least;
      splitter(panel, (std::string("split.") + here[i]->id()).c_str(), slice(start + to - from), extent(gap), across, 1,
               cuts[i], lo, std::max(lo, hi), initial(i), room);
    }
    from = to;
  }
  if (cuts != drawn) kept = cuts;  // if no splitter was moved there is nothing to keep
}

void Cockpit::draw_canvas(Panel& panel, views::ViewContext& context, const views::ViewList& views, ImVec2 at,
                          ImVec2 size) {
  if (!context.a) {
    for (const auto& view : views) {  // of no run, but of a study
      if (view->has_content(context)) return draw_view(panel, context, views, *view, at, size);
    }
    const Region region(panel, "welcome", at, size, true);
    draw_welcome(panel);
    return;
  }
  for (const auto& view : views) {
    if (view->id() == panel.ui.maximised) return draw_view(panel, context, views, *view, at, size);
  }
  CockpitSizes& sizes = panel.ui.sizes;
  const float gap = panel.px(kGap), strip = std::floor((size.y - gap) * sizes.strip);
  draw_place(panel, context, views, views::Place::strip, at, {size.x, strip});
  splitter(panel, "split.strip", {at.x, at.y + strip}, {size.x, gap}, false, 1, sizes.strip, 0.2f, 0.8f,
           CockpitSizes().strip, size.y - gap);
  draw_place(panel, context, views, views::Place::main, {at.x, at.y + strip + gap}, {size.x, size.y - gap - strip});
}

void Cockpit::advance(Panel& panel, views::ViewContext& context) {
  if (context.a && context.selection->play.on) {
    // A frame after a pause is not a leap.
    views::play_on(*context.selection, *context.a->run, std::min(ImGui::GetIO().DeltaTime, 0.25f));
    if (panel.services.wake) panel.services.wake();
  }
  finder_.update(context);
  pins_.update(context);
}

void Cockpit::draw(Panel& panel, views::ViewContext& context, const views::ViewList& views,
                   views::TimeDeck& time_deck) {
  advance(panel, context);
  under_mouse_.clear();
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float gap = panel.px(kGap), bar = panel.px(kBarHeight), status = panel.px(kStatusHeight);
  const auto& ui = panel.ui;
  CockpitSizes& sizes = panel.ui.sizes;
  close_popup_if_asked(panel.ui);
  if (ImGui::IsMouseClicked(0)) panel.ui.keyboard = false;
  std::vector<std::string> regions = {"left", "command_bar"};
  for (const auto& view : views) regions.push_back(view->id());
  regions.insert(regions.end(), {"welcome", "deck", "runs", "answer", "banners"});
  move_keyboard_focus(panel.ui, regions);
  {
    const Region region(panel, "command_bar", {0, 0}, {screen.x, bar}, false);
    draw_command_bar(panel);
  }
  {
    const Region region(panel, "status_bar", {0, screen.y - status}, {screen.x, status}, false);
    message_end_ = draw_status_bar(panel, is_message_line(panel) ? message_width(panel) : 0);
  }
  float x = gap, right = screen.x - gap, y = bar, bottom = screen.y - status - frame_times_height(panel);
  if (ui.left) {
    const float width = std::max(panel.px(260), std::min(0.29f * screen.x, panel.px(sizes.left)));
    draw_left(panel, {x, y}, {width, bottom - y});
    splitter(panel, "split.left", {x + width, y}, {gap, bottom - y}, true, 1, sizes.left, 260, 620,
             CockpitSizes().left);
    x += width + gap;
  }
  if (ui.log) {
    const float height = std::min(panel.px(sizes.log), std::floor(kMostOfLog * screen.y));
    const Region region(panel, "log", {x, bottom - height}, {right - x, height}, true);
    draw_log(panel);
    bottom -= height + gap;
  }
  const ImVec2 rail_size{std::max(panel.px(220), std::min(0.23f * screen.x, panel.px(sizes.right))), bottom - y};
  // Where there is no room for all, what the run shows goes before what is said of one token of it.
  const float least = panel.px(ui.maximised.empty() && main_row(ui, views).size() > 2 ? kLeastOfThree : kLeastOfViews);
  const bool rail = ui.right && context.a && right - x - rail_size.x > least;
  if (rail) right -= rail_size.x + gap;
  if (ui.bottom && context.a) {
    const float height = panel.px(sizes.bottom);
    const Region region(panel, "deck", {x, bottom - height}, {right - x, height}, true);
    time_deck.draw(context, ImGui::GetContentRegionAvail().y);
    bottom -= height + gap;
  }
  draw_canvas(panel, context, views, {x, y}, {right - x, bottom - y});
  if (rail) {  // after what moves the position and the selection, so that it speaks of this frame's
    draw_place(panel, context, views, views::Place::side, {right + gap, y}, rail_size);
    splitter(panel, "split.right", {right, y}, {gap, rail_size.y}, true, -1, sizes.right, 220, 640,
             CockpitSizes().right);
  }
  if (!ui.has_popup() && !ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) {
    const std::string by_keys = keyboard_region(ui);
    panel.ui.pointed_view = by_keys.empty() ? under_mouse_ : by_keys;
  }
  // Over title and buttons: the legend below them says what the states are that are searched for.
  const ImVec2 corner{right - panel.px(12), y + panel.px(4)};
  draw_find_bar(panel, finder_, corner);
  draw_go_to(panel, corner);
  end_hover(panel, *context.selection);
  draw_messages(panel);
  draw_popups(panel);
}

// In the status bar, where it covers nothing; all of them over the lower right corner, so that nothing moves under the
// pointer.
void Cockpit::draw_messages(Panel& panel) {
  if (panel.session.messages().banners().empty()) return draw_banners(panel);
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float width = message_width(panel), bar = screen.y - panel.px(kStatusHeight);
  ImVec2 at{message_end_ - width, bar + panel.px(1)}, size{width, panel.px(kStatusHeight - 3)};
  if (!is_message_line(panel)) {
    const float bottom = bar - panel.px(kGap), top = std::max(panel.px(kBarHeight), bottom - banners_height_);
    at = {screen.x - panel.px(kGap) - width, top}, size = {width, bottom - top};
  }
  const Region region(panel, "banners", at, size, false, panel.all_messages);
  // Regions that were made later would lie over it; what has opened from a menu or a list lies over both.
  if (!ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) ImGui::BringWindowToDisplayFront(ImGui::GetCurrentWindow());
  draw_banners(panel);
  banners_height_ = ImGui::GetCursorPosY();
}

}  // namespace kvscope::app
