// What the export of a figure asks besides its name: preset, venue, and how large it will be on paper.

#include <algorithm>
#include <string>

#include "app/window/panel.h"
#include "app/window/popup.h"
#include "views/figure/recipe.h"
#include "views/imgui_renderer.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
/// What the dialog's picture needs from frame to frame.
struct ExportPreview {
  explicit ExportPreview(views::TextureBackend& textures) : drawing(textures) {}
  std::shared_ptr<const views::Figure> of = nullptr;
  views::FigureDrawing drawing;
};

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

/// The very figure that would be saved, on white, at its true size on a screen of 96 dots an inch or as large as there is
/// room for. The room is the same before it is built: nothing jumps.
void draw_preview(Panel& panel) {
  const ImVec2 room{ImGui::GetContentRegionAvail().x, std::min(panel.px(230), ImGui::GetIO().DisplaySize.y * 0.27f)};
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::Dummy(room);
  const auto& figure = panel.ui.figure_preview;
  if (!figure || figure->width <= 0 || figure->height <= 0) return;
  if (!panel.export_preview) panel.export_preview = std::make_shared<ExportPreview>(*panel.services.textures);
  ExportPreview& preview = *panel.export_preview;
  if (preview.of != figure) preview.of = figure, preview.drawing.set(*figure);
  const float width = static_cast<float>(figure->width), height = static_cast<float>(figure->height);
  const float scale = std::min({panel.px(96.f / 72), room.x / width, room.y / height});
  const ImVec2 origin{at.x + (room.x - width * scale) / 2, at.y + (room.y - height * scale) / 2};
  const ImVec2 end{origin.x + width * scale, origin.y + height * scale};
  ImGui::GetWindowDrawList()->AddRectFilled(origin, end, IM_COL32_WHITE);
  preview.drawing.draw(*ImGui::GetWindowDrawList(), origin, scale, panel.theme());
  panel.services.items->add_text("export.preview", views::item_rect(origin, end),
                                 scale < panel.px(96.f / 72) ? "smaller than on paper" : "as on paper");
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
  draw_preview(panel);
}

}  // namespace kvscope::app
