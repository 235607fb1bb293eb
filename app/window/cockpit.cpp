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
#include "app/workspace/look_scope.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/scrolled.h"

namespace kvscope::app {
namespace {

constexpr float kGap = 6;                                  // design pixels between regions
constexpr float kLeastOfViews = 360, kLeastOfThree = 640;  // widths beside which the inspector has a place
constexpr float kBarHeight = 54, kTitleHeight = 30;
constexpr float kHeadlineHeight = 24, kBelowBar = 7;
constexpr float kRoomForHeadline = 440;  // of the window: in a lower one the views need it
constexpr float kCardPadding = 14;       // at the sides
constexpr float kRoomForAnswer = 820, kRoomBesideChat = 1100, kAnswerHeight = 150;
// One that appears, as views do with the first token and a message at any time, takes no keys from who types.
constexpr ImGuiWindowFlags kRegion = ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                                     ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse |
                                     ImGuiWindowFlags_NoFocusOnAppearing;

// A view or panel in the dock: what scrolls in it scrolls by itself.
constexpr ImGuiWindowFlags kDocked = ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoScrollbar |
                                     ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoFocusOnAppearing;

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

// What was under the pointer is so no longer once no view says it is; those drawn before know by the next frame.
void end_hover(Panel& panel, views::Selection& selection) {
  if (std::exchange(selection.hover_told, false) || selection.hovered_token < 0) return;
  selection.hovered_token = -1;
  if (panel.services.wake) panel.services.wake();
}

/// Padding and rounding of a card for the window that is begun while it lives.
class Card {
 public:
  explicit Card(Panel& panel) {
    ImGui::PushStyleColor(ImGuiCol_WindowBg, views::to_imgui(panel.theme().palette.panel));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {panel.px(kCardPadding), panel.px(10)});
  }
  /// What opens from the window has the style of popups.
  void pop() const {
    ImGui::PopStyleVar();
    ImGui::PopStyleColor();
  }
};

/// In the order in which the keyboard goes through them.
std::vector<std::string> regions(const views::ViewList& views) {
  std::vector<std::string> all = {"left", "command_bar", "headline"};
  for (const auto& view : views) all.push_back(view->id());
  all.insert(all.end(), {"welcome", std::string(kDeckPanel), "runs", "answer", "banners"});
  return all;
}

/// Where there is no room for all, what the run shows goes before what is said of one token of it.
bool has_rail(const Panel& panel, const views::ViewContext& context, const views::ViewList& views) {
  if (!panel.ui.right || !context.a) return false;
  const float screen = ImGui::GetIO().DisplaySize.x;
  const bool three = panel.ui.maximised.empty() && main_row(panel.ui, views).size() > 2;
  const float left = panel.ui.left ? std::max(panel.px(260), std::min(0.29f * screen, panel.px(372))) : 0;
  const float rail = std::max(panel.px(220), std::min(panel.px(330), 0.23f * screen));
  return screen - left - rail - panel.px(4 * kGap) > panel.px(three ? kLeastOfThree : kLeastOfViews);
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

// What a view draws, in the window that was begun for it.
void Cockpit::fill_view(Panel& panel, views::ViewContext& context, views::View& view) {
  if (ImGui::IsWindowHovered(ImGuiHoveredFlags_RootAndChildWindows | ImGuiHoveredFlags_AllowWhenBlockedByActiveItem))
    under_mouse_ = view.id();
  const bool is_first = view.id() == view.kind();
  if (!is_first) panel.services.items->set_scope(view.id() + ":");
  const LookScope look(*context.selection, panel.ui, view.id());
  try {
    // What is beside the canvas has as many lines as there is to say, and its title stays where it is.
    std::optional<views::Scrolled> scrolled;
    if (view.place() == views::Place::side)
      scrolled.emplace(panel.theme(), view.kind(), ImGui::GetWindowWidth(), panel.px(kCardPadding));
    view.draw(context);
  } catch (const std::exception& error) {  // one panel's fault; the others go on
    views::wrapped_text_in(panel.theme().palette.bad, std::string("This view cannot be drawn: ") + error.what());
  }
  panel.services.items->set_scope("");
}

// A view that has the canvas for itself, with its title over it.
void Cockpit::draw_alone(Panel& panel, views::ViewContext& context, views::View& view) {
  const Region region(panel, view.id().c_str(), dock_.views_at(), dock_.views_size(), true);
  draw_view_title(panel, context, view, dock_.views_size().x);
  ImGui::SetCursorPosY(panel.px(kTitleHeight + 6));
  fill_view(panel, context, view);
}

// A view with its tab.
void Cockpit::draw_docked(Panel& panel, views::ViewContext& context, const views::ViewList& views, views::View& view) {
  Dock::next_window(panel, true);
  bool open = true;
  {
    const Card card(panel);
    const bool shown = ImGui::Begin(dock_name(title_of(view), view.id()).c_str(), &open, kDocked);
    card.pop();
    if (shown) fill_view(panel, context, view);
    views::end_content_at_cursor();
    ImGui::End();
  }
  draw_tab_buttons(panel, context, views, view);
  if (open) return;
  if (view.place() == views::Place::side) {
    panel.run("view.right");
  } else {
    panel.run("view.close", {{"view", view.id()}});
  }
}

void Cockpit::draw_canvas(Panel& panel, views::ViewContext& context, const views::ViewList& views) {
  if (!context.a) {  // there may be views of a study
    std::vector<views::View*> with_content, open;
    for (const auto& view : views) {
      if (!view->has_content(context)) continue;
      with_content.push_back(view.get());
      if (view->id() == panel.ui.maximised) return draw_alone(panel, context, *view);
      if (view->place() == views::Place::main && has_window(panel.ui.arrangement, view->id()))
        open.push_back(view.get());
    }
    if (open.size() > 1) {
      for (views::View* view : open) draw_docked(panel, context, views, *view);
      return;
    }
    if (!with_content.empty()) return draw_alone(panel, context, open.empty() ? *with_content.front() : *open.front());
    const Region region(panel, "welcome", dock_.views_at(), dock_.views_size(), true);
    draw_welcome(panel);
    return;
  }
  const auto alone = std::ranges::find(views, panel.ui.maximised, &views::View::id);
  if (alone != views.end()) return draw_alone(panel, context, **alone);
  for (const auto& view : views) {
    if (view->place() != views::Place::side && has_window(panel.ui.arrangement, view->id()))
      draw_docked(panel, context, views, *view);
  }
}

// A panel has no tab; whether it is there is a command's matter.
template <typename Draw>
void Cockpit::draw_panel(Panel& panel, std::string_view id, Draw&& draw) {
  Dock::next_window(panel, false);
  const Card card(panel);
  const bool shown = ImGui::Begin(dock_name("", id).c_str(), nullptr, kDocked);
  card.pop();
  if (shown) draw();
  views::end_content_at_cursor();
  ImGui::End();
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

/// At the top and the bottom of the window. Returns where the views begin.
float Cockpit::draw_bars(Panel& panel, const views::ViewContext& context) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float bar = panel.px(kBarHeight), status = panel.px(kStatusHeight);
  const bool has_headline = views::drawable(context.a) && screen.y >= panel.px(kRoomForHeadline);
  const float headline = bar - panel.px(kBelowBar);  // the command bar leaves this free
  {
    const Region region(panel, "command_bar", {0, 0}, {screen.x, has_headline ? headline : bar}, false);
    draw_command_bar(panel);
  }
  {
    const Region region(panel, "status_bar", {0, screen.y - status}, {screen.x, status}, false);
    message_end_ = draw_status_bar(panel, is_message_line(panel) ? message_width(panel) : 0);
  }
  return has_headline ? headline + panel.px(kHeadlineHeight + kGap) : bar;
}

/// The panel on the left, which the headline does not push down when a first run comes, and beside it the headline.
void Cockpit::draw_left_and_headline(Panel& panel, float top) {
  const float gap = panel.px(kGap), bar = panel.px(kBarHeight), height = panel.px(kHeadlineHeight);
  float from = gap;
  if (panel.ui.left) {
    Dock::next_window(panel, false);
    ImGui::Begin(dock_name("", kLeftPanel).c_str(), nullptr, kDocked | ImGuiWindowFlags_NoBackground);
    ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
    ImGui::End();
    if (at.x <= gap + 1 && at.y <= top + 1) {
      from = at.x + size.x + gap;
      size.y += at.y - bar, at.y = bar;
    }
    draw_left(panel, at, size);
  }
  if (top <= bar) return;
  const Region region(panel, "headline", {from, top - gap - height},
                      {ImGui::GetIO().DisplaySize.x - gap - from, height}, true);
  draw_headline(panel);
}

void Cockpit::draw(Panel& panel, views::ViewContext& context, const views::ViewList& views,
                   views::TimeDeck& time_deck) {
  advance(panel, context);
  under_mouse_.clear();
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float gap = panel.px(kGap), status = panel.px(kStatusHeight);
  const auto& ui = panel.ui;
  close_popup_if_asked(panel.ui);
  if (ImGui::IsMouseClicked(0)) panel.ui.keyboard = false;
  move_keyboard_focus(panel.ui, regions(views));
  const float top = draw_bars(panel, context);
  const float bottom = screen.y - status - frame_times_height(panel);
  dock_.begin(panel, views, {gap, top}, {screen.x - 2 * gap, bottom - top});
  draw_left_and_headline(panel, top);
  if (ui.log) draw_panel(panel, kLogPanel, [&] { draw_log(panel); });
  if (ui.bottom && context.a)
    draw_panel(panel, kDeckPanel, [&] { time_deck.draw(context, ImGui::GetContentRegionAvail().y); });
  draw_canvas(panel, context, views);
  if (has_rail(panel, context, views)) {  // after what moves the position and the selection: it shows this frame's
    for (const auto& view : views) {
      if (view->place() == views::Place::side) draw_docked(panel, context, views, *view);
    }
  }
  if (!ui.has_popup() && !ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) {
    const std::string by_keys = keyboard_region(ui);
    panel.ui.pointed_view = by_keys.empty() ? under_mouse_ : by_keys;
  }
  // Over title and buttons: the legend below them says what the states are that are searched for.
  const ImVec2 corner{dock_.views_at().x + dock_.views_size().x - panel.px(12), top + panel.px(4)};
  draw_find_bar(panel, finder_, corner);
  draw_go_to(panel, corner);
  end_hover(panel, *context.selection);
  draw_messages(panel);
  draw_popups(panel);
  dock_.end(panel);
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
