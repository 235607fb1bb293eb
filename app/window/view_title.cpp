#include "app/window/view_title.h"

#include <algorithm>
#include <string>
#include <vector>

#include "app/command/layouts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::app {
namespace {

/// What can be done with the view, from left to right. Where they leave no room for the title, one button has them all.
struct TitleButton {
  const char *label, *item;
};

std::vector<TitleButton> buttons_of(const Panel& panel, const views::ViewContext& context, const views::View& view) {
  std::vector<TitleButton> buttons;
  if (view.figure(context).has_value()) buttons.push_back({"Export", ".export"});
  if (view.place() == views::Place::main && panel.ui.maximised.empty()) buttons.push_back({"Views", ".views"});
  if (view.place() != views::Place::side)
    buttons.push_back({panel.ui.maximised.empty() ? "Maximise" : "Restore", ".maximise"});
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

/// Any view that is not in the row may come in the place of this one, or beside it.
void draw_views_popup(Panel& panel, const views::ViewList& views, const views::View& view) {
  const views::FontScope font(panel.theme().fonts.text);  // outside of the popup, which must leave no font behind
  if (!ImGui::BeginPopup("views")) return;
  const auto row = main_row(panel.ui, views);
  const auto entries = [&](const char* heading, const char* item, bool instead) {
    views::text_in(panel.theme().palette.muted, heading);
    for (const auto& other : views) {
      if (other->place() != views::Place::main || std::ranges::find(row, other.get()) != row.end()) continue;
      ImGui::PushID(item);
      if (ImGui::Selectable(other->title())) {
        nlohmann::json arguments = {{"view", other->id()}};
        if (instead) arguments["instead_of"] = view.id();
        panel.run("view.show", arguments);
      }
      panel.item(std::string(item) + other->id());
      ImGui::PopID();
    }
  };
  if (row.size() < static_cast<std::size_t>(std::ranges::count(views, views::Place::main, &views::View::place))) {
    entries("Show here", "views.here.", true);
    entries("Show next to it", "views.beside.", false);
    ImGui::Separator();
  }
  if (ImGui::Selectable("Hide this view", false, row.size() > 1 ? 0 : ImGuiSelectableFlags_Disabled))
    panel.run("view.toggle_" + std::string(view.id()));
  panel.item("views.hide");
  ImGui::EndPopup();
}

/// Says which button was pressed, by its item; empty for none.
std::string draw_buttons(Panel& panel, const views::View& view, const std::vector<TitleButton>& buttons) {
  std::string pressed;
  for (const TitleButton& button : buttons) {
    if (ImGui::Button(button.label)) pressed = button.item;
    panel.item(std::string("view.") + view.id() + button.item);
    ImGui::SameLine(0, panel.px(2));
  }
  ImGui::NewLine();
  return pressed;
}

/// The same in the menu of one button.
std::string draw_menu_button(Panel& panel, const views::View& view, const std::vector<TitleButton>& buttons) {
  std::string pressed;
  if (ImGui::Button("More")) ImGui::OpenPopup("more");
  panel.item(std::string("view.") + view.id() + ".more");
  const views::FontScope font(panel.theme().fonts.text);
  if (!ImGui::BeginPopup("more")) return pressed;
  for (const TitleButton& button : buttons) {
    if (ImGui::Selectable(button.label)) pressed = button.item;
    panel.item(std::string("view.") + view.id() + button.item);
  }
  ImGui::EndPopup();
  return pressed;
}

}  // namespace

void draw_view_title(Panel& panel, const views::ViewContext& context, const views::ViewList& views,
                     const views::View& view, float width) {
  const std::vector<TitleButton> buttons = buttons_of(panel, context, view);
  const float edges = panel.px(14 + 8), all = width_of(panel, buttons);
  const bool fits = buttons.size() < 2 || title_width(panel, view) + all + edges < width;
  const float taken = fits ? all : width_of(panel, {{"More", ""}});
  draw_title(panel, view, width - taken - panel.px(14));
  if (buttons.empty()) return;
  const views::FontScope font(panel.theme().fonts.small);
  ImGui::SetCursorPos({std::max(panel.px(14), width - taken - panel.px(8)), panel.px(6)});
  ImGui::PushStyleColor(ImGuiCol_Button, IM_COL32(0, 0, 0, 0));
  ImGui::PushStyleColor(ImGuiCol_Text, views::to_imgui(panel.theme().palette.muted));
  ImGui::PushID(view.id());
  const std::string pressed = fits ? draw_buttons(panel, view, buttons) : draw_menu_button(panel, view, buttons);
  ImGui::PopStyleColor(2);
  if (pressed == ".export") panel.run("figure.export", {{"view", view.id()}});
  if (pressed == ".maximise") panel.run("view.maximise", {{"view", view.id()}});
  if (pressed == ".views") ImGui::OpenPopup("views");
  draw_views_popup(panel, views, view);
  ImGui::PopID();
}

}  // namespace kvscope::app
