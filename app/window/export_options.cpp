// What the export of a figure asks besides its name: preset, venue, and how large it will be on paper.

#include <string>

#include "app/window/panel.h"
#include "app/window/popup.h"
#include "views/figure/recipe.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr const char* kAsShown = "What is on screen";

/// Writes a choice into the arguments; "" takes it out.
bool choose(nlohmann::json& arguments, const char* key, const std::string& value) {
  if (arguments.value(key, "") == value) return false;
  if (value.empty()) {
    arguments.erase(key);
  } else {
    arguments[key] = value;
  }
  return true;
}

bool draw_presets(Panel& panel, nlohmann::json& arguments) {
  const std::string now = arguments.value("preset", "");
  bool changed = false;
  setting(panel, "Figure");
  if (ImGui::BeginCombo("##preset", now.empty() ? kAsShown : now.c_str())) {
    if (ImGui::Selectable(kAsShown, now.empty())) changed |= choose(arguments, "preset", "");
    for (const views::FigurePreset& preset : views::figure_presets()) {
      if (preset.least_runs != 1) continue;  // of a study, or of several runs: kvscope figure makes those
      if (ImGui::Selectable(std::string(preset.title).c_str(), now == preset.name))
        changed |= choose(arguments, "preset", std::string(preset.name));
    }
    ImGui::EndCombo();
  }
  panel.services.items->add_text("export.preset", views::last_item(), now.empty() ? kAsShown : now);
  return changed;
}

bool draw_venues(Panel& panel, nlohmann::json& arguments) {
  const std::string now = arguments.value("venue", "neurips");
  bool changed = false;
  setting(panel, "Venue");
  if (ImGui::BeginCombo("##venue", now.c_str())) {
    for (const views::Venue& venue : views::venues()) {
      const std::string name(venue.name);
      const bool columns = venue.column != venue.full;
      if (ImGui::Selectable((name + (columns ? ", column" : "")).c_str(), now == name))
        changed |= choose(arguments, "venue", name);
      if (columns && ImGui::Selectable((name + ", full width").c_str(), now == name + ":full"))
        changed |= choose(arguments, "venue", name + ":full");
    }
    ImGui::EndCombo();
  }
  panel.services.items->add_text("export.venue", views::last_item(), now);
  return changed;
}

}  // namespace

void draw_export_options(Panel& panel) {
  FileDialog& dialog = *panel.ui.dialog;
  const PopupStyle style(panel);
  bool changed = draw_presets(panel, dialog.arguments);
  changed |= draw_venues(panel, dialog.arguments);
  if (changed || panel.ui.figure_size.empty()) {
    panel.ui.figure_size = "measuring ...";
    panel.run("figure.measure", dialog.arguments);
  }
  setting(panel, "On paper");
  views::text_in(panel.theme().palette.muted, panel.ui.figure_size);
  panel.services.items->add_text("export.size", views::last_item(), panel.ui.figure_size);
  ImGui::SameLine(ImGui::GetContentRegionMax().x - panel.px(120));
  if (ImGui::Button("Copy as PNG", {panel.px(120), 0})) panel.run("figure.copy", dialog.arguments);
  panel.item("export.copy");
  tooltip(panel, "The figure as it would be saved, as a picture on the clipboard");
}

}  // namespace kvscope::app
