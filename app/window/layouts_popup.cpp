// Layouts of a person's own: each a line to take or to remove, and a field that names what the window shows now.

#include <imgui.h>

#include <memory>
#include <string>

#include "app/command/layouts.h"
#include "app/window/panel.h"
#include "app/window/popup.h"
#include "views/text/text_editor.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {

struct LayoutEditor {
  explicit LayoutEditor(const views::ViewServices& services) : name(services, views::TextModel::Lines::one) {}
  views::TextEditor name;
  int frames = 0;  // that it is open
};

namespace {

void draw_own_layout(Panel& panel, const std::string& name) {
  const float remove = panel.px(74);
  ImGui::PushID(name.c_str());
  if (ImGui::Selectable(name.c_str(), false, 0, {ImGui::GetContentRegionAvail().x - remove - panel.px(8), 0}))
    panel.run("layout.apply", {{"name", name}});
  panel.item("layouts.take." + name);
  ImGui::SameLine(ImGui::GetContentRegionMax().x - remove);
  const bool removed = ImGui::SmallButton("Remove");
  panel.item("layouts.remove." + name);
  ImGui::PopID();
  if (removed) panel.run("layout.remove", {{"name", name}});
}

void draw_save(Panel& panel) {
  LayoutEditor& editor = *panel.layout_editor;
  const float button = panel.px(70), gap = ImGui::GetStyle().ItemSpacing.x;
  editor.name.draw({.item = "layouts.name",
                    .size = {ImGui::GetContentRegionAvail().x - button - gap, 0},
                    .hint = "A name for what the window shows now",
                    .focus = ++editor.frames == 2});  // not in the first: the key that opens it would be typed
  ImGui::SameLine();
  bool entered = false;
  for (const std::string& key : panel.ui.popup_keys) entered = entered || key == "enter";
  const bool save = ImGui::Button("Save", {button, 0});
  panel.item("layouts.save");
  if ((!save && !entered) || editor.name.text().empty()) return;
  panel.run("layout.save", {{"name", editor.name.text()}});
  editor.name.set_text("");
}

}  // namespace

void draw_layouts(Panel& panel) {
  if (!panel.ui.layouts) return panel.layout_editor.reset();
  if (!panel.layout_editor) panel.layout_editor = std::make_shared<LayoutEditor>(panel.services);
  if (begin_popup(panel, "layouts", 460, 0)) {
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "Layouts of your own");
    ImGui::SameLine(ImGui::GetContentRegionMax().x - panel.px(70));
    if (ImGui::Button("Close", {panel.px(70), 0})) panel.ui.layouts = false;
    panel.item("layouts.close");
    const std::vector<OwnLayout> layouts = panel.ui.own_layouts;  // a line may remove one
    for (const OwnLayout& layout : layouts) draw_own_layout(panel, layout.name);
    if (layouts.empty())
      views::wrapped_text_in(panel.theme().palette.muted,
                             "None yet. A layout is which panels are there and which views stand in the main row.");
    ImGui::Dummy({0, panel.px(2)});
    draw_save(panel);
  }
  ImGui::End();
}

}  // namespace kvscope::app
