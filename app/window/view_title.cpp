#include "app/window/view_title.h"

#include <imgui_internal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "app/command/layouts.h"
#include "app/window/dock.h"
#include "app/workspace/look_scope.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::app {
namespace {

/// What can be done with the view, from left to right. Where they leave no room for the title, one button has them all.
struct TitleButton {
  const char *label, *item;
};

std::vector<TitleButton> buttons_of(const views::ViewContext& context, const views::View& view, bool alone) {
  std::vector<TitleButton> buttons;
  if (view.figure(context).has_value()) buttons.push_back({"Export", ".export"});
  if (view.place() == views::Place::side) return buttons;
  if (!alone) buttons.push_back({"Views", ".views"});
  buttons.push_back({alone ? "Restore" : "Maximise", ".maximise"});
  return buttons;
}

float width_of(const Panel& panel, const std::vector<TitleButton>& buttons) {
  const views::FontScope font(panel.theme().fonts.small);
  float width = 0;
  for (const TitleButton& button : buttons)
    width += ImGui::CalcTextSize(button.label).x + 2 * ImGui::GetStyle().FramePadding.x + panel.px(2);
  return width;
}

float title_width(const Panel& panel, const views::View& view) {
  const views::FontScope font(panel.theme().fonts.bold);
  return ImGui::CalcTextSize(view.title()).x;
}

void draw_title(Panel& panel, const views::View& view, float right) {
  const views::FontScope font(panel.theme().fonts.bold);
  ImGui::SetCursorPosY(panel.px(8));
  // A view among many is narrow: the title ends where the buttons begin.
  const std::string title =
      views::cut_to(view.title(), ImGui::GetWindowPos().x + right - ImGui::GetCursorScreenPos().x);
  views::text_in(panel.theme().palette.text, title);
  if (title != view.title()) tooltip(panel, view.title());
  if (view.place() != views::Place::side && ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(0))
    panel.run("view.maximise", {{"view", view.id()}});
}

/// What is closed may open in the place of this view or beside it, and this one may open again.
void draw_views_popup(Panel& panel, const views::ViewList& views, const views::View& view) {
  const views::FontScope font(panel.theme().fonts.text);  // outside of the popup, which must leave no font behind
  if (!ImGui::BeginPopup("views")) return;
  const auto entry = [&](const char* title, const std::string& item, const char* command, nlohmann::json arguments) {
    if (ImGui::Selectable(title)) panel.run(command, arguments);
    panel.item(item);
  };
  entry("Open another of this kind", "views.another", "view.another", {{"view", view.id()}});
  if (const auto look = panel.ui.looks.find(view.id()); look != panel.ui.looks.end())
    entry(look->second.own_head ? "Follow the selected head" : "Hold this head", "views.hold_head", "view.hold_head",
          {{"view", view.id()}});
  entry("Float", "views.float", "view.float", {{"view", view.id()}});
  const auto entries = [&](const char* heading, const char* item, bool instead) {
    views::text_in(panel.theme().palette.muted, heading);
    for (const auto& other : views) {
      if (other->place() == views::Place::side || has_window(panel.ui.arrangement, other->id())) continue;
      ImGui::PushID(item);
      nlohmann::json arguments = {{"view", other->id()}};
      if (instead) arguments["instead_of"] = view.id();
      entry(other->title(), std::string(item) + other->id(), "view.show", arguments);
      ImGui::PopID();
    }
  };
  const bool any_closed = std::ranges::any_of(views, [&](const auto& other) {
    return other->place() != views::Place::side && !has_window(panel.ui.arrangement, other->id());
  });
  if (any_closed) {
    ImGui::Separator();
    entries("Show here", "views.here.", true);
    entries("Show in the row", "views.beside.", false);
  }
  ImGui::Separator();
  entry("Close this view", "views.hide", "view.close", {{"view", view.id()}});
  ImGui::EndPopup();
}

/// Says which button was pressed, by its item; empty for none.
std::string draw_buttons(Panel& panel, const views::View& view, const std::vector<TitleButton>& buttons) {
  std::string pressed;
  for (const TitleButton& button : buttons) {
    if (ImGui::Button(button.label)) pressed = button.item;
    panel.item("view." + view.id() + button.item);
    ImGui::SameLine(0, panel.px(2));
  }
  ImGui::NewLine();
  return pressed;
}

/// The same in the menu of one button.
std::string draw_menu_button(Panel& panel, const views::View& view, const std::vector<TitleButton>& buttons) {
  std::string pressed;
  if (ImGui::Button("More")) ImGui::OpenPopup("more");
  panel.item("view." + view.id() + ".more");
  const views::FontScope font(panel.theme().fonts.text);
  if (!ImGui::BeginPopup("more")) return pressed;
  for (const TitleButton& button : buttons) {
    if (ImGui::Selectable(button.label)) pressed = button.item;
    panel.item("view." + view.id() + button.item);
  }
  ImGui::EndPopup();
  return pressed;
}

void press(Panel& panel, const views::View& view, const std::string& pressed) {
  if (pressed == ".export") panel.run("figure.export", {{"view", view.id()}});
  if (pressed == ".maximise") panel.run("view.maximise", {{"view", view.id()}});
  if (pressed == ".views") ImGui::OpenPopup("views");
}

/// At the right end of a tab bar; with no room for all, one button has them in a menu.
std::string draw_tab_row(Panel& panel, const views::View& view, const std::vector<TitleButton>& buttons, bool fits) {
  std::string pressed;
  const auto button = [&](const char* label, const std::string& item) {
    const bool is_pressed = ImGui::TabItemButton(label, ImGuiTabItemFlags_Trailing | ImGuiTabItemFlags_NoTooltip);
    if (ImGui::GetItemRectSize().x > 0) panel.item("view." + view.id() + item);  // in its first frame it has no place
    return is_pressed;
  };
  if (fits) {
    for (const TitleButton& one : buttons) {
      if (button(one.label, one.item)) pressed = one.item;
    }
    return pressed;
  }
  if (button("More", ".more")) ImGui::OpenPopup("more");
  if (!ImGui::BeginPopup("more")) return pressed;
  for (const TitleButton& one : buttons) {
    if (ImGui::Selectable(one.label)) pressed = one.item;
    panel.item("view." + view.id() + one.item);
  }
  ImGui::EndPopup();
  return pressed;
}

}  // namespace

std::string title_of(const views::View& view) {
  std::string title = view.title();
  if (view.id() != view.kind()) title += " " + view.id().substr(view.id().find('.') + 1);
  return title;
}

void draw_tab_buttons(Panel& panel, const views::ViewContext& context, const views::ViewList& views,
                      const views::View& view) {
  const ImGuiWindow* window = ImGui::FindWindowByName(dock_name("", view.id()).c_str());
  ImGuiDockNode* node = window ? window->DockNode : nullptr;
  if (node == nullptr || node->VisibleWindow != window) return;
  std::vector<TitleButton> buttons;
  {
    const LookScope look(*context.selection, panel.ui, view.id());
    buttons = buttons_of(context, view, false);
  }
  const PopupStyle style(panel);  // ends after the tab bar's window
  // Of a host window that has no room for items there is no tab bar either.
  if (node->HostWindow == nullptr || node->HostWindow->SkipItems || !ImGui::DockNodeBeginAmendTabBar(node)) return;
  const ImRect bar = node->TabBar->BarRect;
  const float first = bar.Min.x - node->TabBar->ScrollingAnim;
  float tabs = 0;
  for (const ImGuiTabItem& tab : node->TabBar->Tabs) {
    if (tab.Window == nullptr) continue;
    tabs += tab.ContentWidth;
    panel.services.items->add(
        "tab." + docked_id(tab.Window->Name),
        views::item_rect({first + tab.Offset, bar.Min.y}, {first + tab.Offset + tab.Width, bar.Max.y}));
  }
  ImGui::PushID(view.id().c_str());
  press(panel, view, draw_tab_row(panel, view, buttons, tabs + width_of(panel, buttons) < node->Size.x));
  draw_views_popup(panel, views, view);
  ImGui::PopID();
  ImGui::DockNodeEndAmendTabBar();
}

void draw_view_title(Panel& panel, const views::ViewContext& context, const views::View& view, float width) {
  const LookScope look(*context.selection, panel.ui, view.id());
  const std::vector<TitleButton> buttons = buttons_of(context, view, true);
  const float edges = panel.px(14 + 8), all = width_of(panel, buttons);
  const bool fits = buttons.size() < 2 || title_width(panel, view) + all + edges < width;
  const float taken = fits ? all : width_of(panel, {{"More", ""}});
  draw_title(panel, view, width - taken - panel.px(14));
  if (buttons.empty()) return;
  const views::FontScope font(panel.theme().fonts.small);
  ImGui::SetCursorPos({std::max(panel.px(14), width - taken - panel.px(8)), panel.px(6)});
  ImGui::PushStyleColor(ImGuiCol_Button, IM_COL32(0, 0, 0, 0));
  ImGui::PushStyleColor(ImGuiCol_Text, views::to_imgui(panel.theme().palette.muted));
  ImGui::PushID(view.id().c_str());
  const std::string pressed = fits ? draw_buttons(panel, view, buttons) : draw_menu_button(panel, view, buttons);
  ImGui::PopStyleColor(2);
  press(panel, view, pressed);
  ImGui::PopID();
}

}  // namespace kvscope::app
