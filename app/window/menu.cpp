// The menu: every command of the registry, by group, in the order in which they were added.

#include <algorithm>
#include <string>
#include <vector>

#include "app/process/models.h"
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
    const std::string keys = first_shortcut(command);
    const bool chosen = ImGui::MenuItem(command.title.c_str(), keys.empty() ? nullptr : keys.c_str(), false,
                                        panel.commands.enabled(command));
    panel.item("menu." + command.id);
    if (chosen) panel.run(command.id);
  }
}

/// The models of this machine by name; the open one is marked. Looked up when the menu opens, not in every frame.
void draw_models(Panel& panel) {
  static std::vector<KnownModel> models;
  const bool open = ImGui::BeginMenu("Models");
  panel.item("menu.Models");
  if (!open) {
    models.clear();
    return;
  }
  if (models.empty()) models = known_models();
  const bool possible = !panel.session.run_in_progress();
  for (const KnownModel& model : models) {
    const bool here = !model.path.empty(), is_open = here && panel.session.engine().model_path() == model.path.string();
    const char* note = here ? model.origin.c_str() : model.how.c_str();
    if (ImGui::MenuItem(model.name.c_str(), note, is_open, here && possible))
      panel.run("model.open", {{"path", model.path.string()}});
    panel.item("menu.model." + model.name);
  }
  ImGui::EndMenu();
}

}  // namespace

void draw_menu(Panel& panel) {
  if (ImGui::Button("Menu", {panel.px(64), panel.px(32)})) ImGui::OpenPopup("menu");
  panel.item("button.menu");
  if (!ImGui::BeginPopup("menu")) return;
  draw_models(panel);
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
