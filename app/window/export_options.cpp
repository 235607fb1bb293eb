// What the export of a figure asks besides its name: preset, venue, and how large it will be on paper.

#include <algorithm>
#include <string>
#include <vector>

#include "app/window/panel.h"
#include "app/window/popup.h"
#include "views/figure/image_means.h"
#include "views/figure/recipe.h"
#include "views/imgui_renderer.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::app {
/// What the dialog's picture needs from frame to frame.
struct ExportPreview {
  explicit ExportPreview(views::TextureBackend& textures) : drawing(textures) {}
  std::shared_ptr<const views::Figure> of = nullptr;
  float scale = 0;
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

struct Choice {
  std::string value, label;
};

std::vector<Choice> presets() {
  std::vector<Choice> all = {{"", kAsShown}};
  for (const views::FigurePreset& preset : views::figure_presets()) {
    if (preset.least_runs != 1) continue;  // of a study, or of several runs: kvscope figure makes those
    all.push_back({std::string(preset.name), std::string(preset.title)});
  }
  return all;
}

/// The chosen preset's, or that of the view on screen.
std::string title_of_choice(const FileDialog& dialog) {
  const std::vector<Choice> all = presets();
  const auto preset = std::ranges::find(all, dialog.arguments.value("preset", ""), &Choice::value);
  return preset == all.end() || preset->value.empty() ? dialog.shown_title : preset->label;
}

std::vector<Choice> venues() {
  std::vector<Choice> all;
  for (const views::Venue& venue : views::venues()) {
    const std::string name(venue.name), title(venue.title);
    const bool columns = venue.column != venue.full;
    all.push_back({name, title + (columns ? ", column" : "")});
    if (columns) all.push_back({name + ":full", title + ", full width"});
  }
  return all;
}

/// How many steps on the keys ask for: the field of the path has the arrows and Tab, so each list has its own letter.
int steps_of_keys(const Panel& panel, const std::string& letter) {
  return static_cast<int>(std::ranges::count(panel.ui.popup_keys, "alt+" + letter) -
                          std::ranges::count(panel.ui.popup_keys, "shift+alt+" + letter));
}

/// One of a list, by the mouse or by Alt and its letter, Shift the other way. Returns whether it is another one now.
bool draw_list(Panel& panel, const char* key, const std::string& letter, const std::vector<Choice>& all,
               const std::string& initial) {
  nlohmann::json& arguments = panel.ui.dialog->arguments;
  const std::string now = arguments.value(key, initial);
  const auto found = std::ranges::find(all, now, &Choice::value);
  const auto n = static_cast<int>(all.size()), was = found == all.end() ? -1 : static_cast<int>(found - all.begin());
  const int steps = steps_of_keys(panel, letter);
  int at = steps == 0 ? was : ((std::max(0, was) + steps) % n + n) % n;
  const std::string shown = at < 0 ? now : all[static_cast<std::size_t>(at)].label;
  if (views::begin_combo((std::string("##") + key).c_str(), shown)) {
    for (int i = 0; i < n; ++i) {
      const bool is_it = i == at;
      if (ImGui::Selectable(all[static_cast<std::size_t>(i)].label.c_str(), is_it)) at = i;
      if (is_it) ImGui::SetItemDefaultFocus();
    }
    ImGui::EndCombo();
  }
  panel.services.items->add_text(std::string("export.") + key, views::last_item(), shown);
  return at != was && choose(arguments, key, all[static_cast<std::size_t>(at)].value);
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
  const float width = static_cast<float>(figure->width), height = static_cast<float>(figure->height);
  const float scale = std::min({panel.px(96.f / 72), room.x / width, room.y / height});
  if (preview.of != figure || preview.scale != scale) {
    preview.of = figure, preview.scale = scale;
    preview.drawing.set(views::for_pixels(*figure, scale));  // on paper it has cells finer than pixels here
  }
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
  setting(panel, "Figure (Alt+F)");
  const std::string before = dialog.arguments.value("preset", dialog.shown);
  bool changed = draw_list(panel, "preset", "f", presets(), "");
  if (changed) suggest_name(dialog, before, dialog.arguments.value("preset", dialog.shown), title_of_choice(dialog));
  setting(panel, "Venue (Alt+V)");
  changed |= draw_list(panel, "venue", "v", venues(), "neurips");
  if (changed || panel.ui.figure_size.empty()) {
    panel.ui.figure_size = "measuring ...";
    panel.run("figure.measure", dialog.arguments);
  }
  setting(panel, "On paper");
  views::text_in(panel.theme().palette.muted, panel.ui.figure_size);
  panel.services.items->add_text("export.size", views::last_item(), panel.ui.figure_size);
  ImGui::SameLine(views::right_edge() - panel.px(120));
  if (ImGui::Button("Copy as PNG", {panel.px(120), 0})) panel.run("figure.copy", dialog.arguments);
  panel.item("export.copy");
  tooltip(panel, "Copy the figure to the clipboard as a picture");
  draw_preview(panel);
}

}  // namespace kvscope::app
