// What lies over the views: the list of keys, and the frame that all of them have. The palette and the dialog have their own files.

#include <imgui.h>
#include <imgui_internal.h>  // BringWindowToDisplayFront

#include <algorithm>
#include <string>
#include <vector>

#include "app/window/panel.h"
#include "app/window/popup.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::app {
namespace {

using views::text_in;

// Takes the light off what lies behind a popup; a click there closes it.
void draw_dim(Panel& panel) {
  if (!panel.ui.has_popup()) return;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, IM_COL32(0, 0, 0, panel.theme().dark ? 110 : 60));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::Begin("dim", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNav);
  if (ImGui::IsWindowHovered() && ImGui::IsMouseClicked(0)) panel.ui.close_popups();
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

struct KeyGroup {
  std::string name;
  std::vector<const Command*> commands;
};

/// The commands that have keys, a menu's together wherever they were added.
std::vector<KeyGroup> key_groups(const CommandRegistry& commands) {
  std::vector<KeyGroup> groups;
  for (const Command& command : commands.all()) {
    if (command.shortcut.empty()) continue;
    auto group = std::ranges::find(groups, command.group, &KeyGroup::name);
    if (group == groups.end()) group = groups.insert(groups.end(), {command.group, {}});
    group->commands.push_back(&command);
  }
  return groups;
}

void draw_key_group(Panel& panel, const KeyGroup& group, float width) {
  ImGui::Dummy({0, panel.px(2)});
  draw_text(panel.theme().fonts.bold, panel.theme().palette.text, group.name);
  if (!ImGui::BeginTable(group.name.c_str(), 2, ImGuiTableFlags_None, {width, 0})) return;
  ImGui::TableSetupColumn("what", ImGuiTableColumnFlags_WidthStretch, 5);
  ImGui::TableSetupColumn("keys", ImGuiTableColumnFlags_WidthStretch, 3);
  for (const Command* command : group.commands) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    views::wrapped_text_in(panel.theme().palette.muted, command->title);
    ImGui::TableNextColumn();
    views::wrapped_text_in(panel.theme().palette.accent, panel.shortcuts.all(*command));
  }
  ImGui::EndTable();
}

/// Two columns where there is room, so that most of the sheet is seen at once.
void draw_key_groups(Panel& panel) {
  const std::vector<KeyGroup> groups = key_groups(panel.commands);
  std::size_t lines = 0;
  for (const KeyGroup& group : groups) lines += group.commands.size() + 2;
  const float room = ImGui::GetContentRegionAvail().x, gap = panel.px(24);
  const bool two = room > panel.px(700);
  const float width = two ? (room - gap) / 2 : room;
  std::size_t drawn = 0;
  bool right = false;
  ImGui::BeginGroup();
  for (const KeyGroup& group : groups) {
    if (two && !right && drawn > 0 && drawn + group.commands.size() / 2 > lines / 2) {
      ImGui::EndGroup();
      ImGui::SameLine(0, gap);
      ImGui::BeginGroup();
      right = true;
    }
    draw_key_group(panel, group, width);
    drawn += group.commands.size() + 2;
  }
  ImGui::EndGroup();
}

/// By the keys that were pressed since the last frame: arrows go three lines, the page keys a page but for a line.
void scroll_by_keys(const Panel& panel) {
  const float line = ImGui::GetTextLineHeightWithSpacing(), page = ImGui::GetWindowHeight() - line;
  float to = ImGui::GetScrollY();
  for (const std::string& key : panel.ui.popup_keys) {
    if (key == "up") to -= 3 * line;
    if (key == "down") to += 3 * line;
    if (key == "pageup") to -= page;
    if (key == "pagedown") to += page;
    if (key == "home") to = 0;
    if (key == "end") to = ImGui::GetScrollMaxY();
    to = std::clamp(to, 0.f, ImGui::GetScrollMaxY());
  }
  if (!panel.ui.popup_keys.empty()) ImGui::SetScrollY(to);
}

void draw_help(Panel& panel) {
  if (!panel.ui.help) return;
  if (begin_popup(panel, "keys", 1080, 820)) {
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "Keys");
    ImGui::SameLine(views::right_edge() - panel.px(70));
    if (ImGui::Button("Close", {panel.px(70), 0})) panel.ui.help = false;
    panel.item("keys.close");
    ImGui::BeginChild("list");
    scroll_by_keys(panel);
    draw_key_groups(panel);
    const float most = ImGui::GetScrollMaxY();
    const char* place = ImGui::GetScrollY() <= 0 ? "top" : ImGui::GetScrollY() >= most ? "end" : "middle";
    ImGui::EndChild();
    panel.services.items->add_text("keys.list", views::last_item(), place);
  }
  ImGui::End();
}

}  // namespace

bool begin_popup(Panel& panel, const char* name, float width, float height) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float margin = panel.px(12), wide = std::min(panel.px(width), screen.x - 2 * margin);
  float top = std::min(screen.y * 0.14f, panel.px(140));
  // As high as what is in it: where that has no room below, it begins higher.
  if (const ImGuiWindow* last = ImGui::FindWindowByName(name); height <= 0 && last != nullptr)
    top = std::max(0.f, std::min(top, screen.y - margin - last->Size.y));
  ImGui::SetNextWindowPos({(screen.x - wide) / 2, top});
  ImGui::SetNextWindowSize({wide, height > 0 ? std::min(panel.px(height), screen.y - top - margin) : 0});
  ImGui::PushStyleColor(ImGuiCol_Border, views::to_imgui(panel.theme().palette.faint));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, views::to_imgui(panel.theme().palette.panel));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, panel.px(8));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {panel.px(16), panel.px(14)});
  const bool open = ImGui::Begin(name, nullptr,
                                 ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                                     ImGuiWindowFlags_NoSavedSettings);
  if (!ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) ImGui::BringWindowToDisplayFront(ImGui::GetCurrentWindow());
  ImGui::PopStyleVar(3);
  ImGui::PopStyleColor(2);
  return open;
}

void draw_popups(Panel& panel) {
  draw_dim(panel);
  draw_palette(panel);
  draw_help(panel);
  draw_notes(panel);
  draw_layouts(panel);
  draw_studies(panel);
  draw_file_dialog(panel);
  panel.ui.popup_keys.clear();
}

}  // namespace kvscope::app
