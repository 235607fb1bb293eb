// The menu: every command of the registry, by group, in the order in which they were added.

#include <algorithm>
#include <string>
#include <vector>

#include "app/window/panel.h"

namespace kvscope::app {
namespace {

std::vector<std::string> groups(const CommandRegistry& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands.all()) {
    if (std::ranges::find(names, command.group) == names.end()) names.push_back(command.group);
  }
  return names;
}

void draw_group(Panel& panel, const std::string& group) {
  for (const Command& command : panel.commands.all()) {
    if (command.group != group) continue;
    const std::string keys = panel.shortcuts.first(command);
    const bool chosen = ImGui::MenuItem(command.title.c_str(), keys.empty() ? nullptr : keys.c_str(), false,
                                        panel.commands.enabled(command));
    panel.item("menu." + command.id);
    const std::string why = panel.commands.refusal(command);
    if (!why.empty()) tooltip(panel, why);
    if (chosen) panel.run(command.id);
  }
}

}  // namespace

void draw_menu(Panel& panel) {
  if (ImGui::Button("Menu", {panel.px(64), panel.px(32)})) ImGui::OpenPopup("menu");
  panel.item("button.menu");
  anchor_popup();
  const PopupStyle style(panel);
  if (!ImGui::BeginPopup("menu")) return;
  for (const std::string& group : groups(panel.commands)) {
    const bool open = ImGui::BeginMenu(group.c_str());
    panel.item("menu." + group);
    if (!open) continue;
    draw_group(panel, group);
    ImGui::EndMenu();
  }
  ImGui::EndPopup();
}

}  // namespace kvscope::app
