// Layouts of a person's own: each a line to take or to remove, and a field that names what the window shows now.

#include <imgui.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/command/layouts.h"
#include "app/window/panel.h"
#include "app/window/popup.h"
#include "engine/core/support/trim.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/text_field.h"

namespace kvscope::app {

struct LayoutEditor {
  explicit LayoutEditor(const views::ViewServices& services) : name(services, views::TextField::Lines::one) {}
  std::string typed() const { return std::string(trim(name.text(), " \t\n")); }
  views::TextField name;
  int frames = 0;          // since the field had to ask for the keyboard
  std::size_t chosen = 0;  // that Enter takes
};

namespace {

using Layouts = std::vector<OwnLayout>;

/// Its line, or as many as there are for none.
std::size_t line_of(const Layouts& layouts, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(layouts, name, &OwnLayout::name) - layouts.begin());
}

void draw_own_layout(Panel& panel, const std::string& name, bool chosen) {
  const float remove = panel.px(74);
  ImGui::PushID(name.c_str());
  if (ImGui::Selectable(name.c_str(), chosen, 0, {ImGui::GetContentRegionAvail().x - remove - panel.px(8), 0}))
    panel.run("layout.apply", {{"name", name}});
  panel.services.items->add_text("layouts.take." + name, views::last_item(), chosen ? "chosen" : "");
  ImGui::SameLine(views::right_edge() - remove);
  const bool removed = ImGui::SmallButton("Remove");
  panel.item("layouts.remove." + name);
  ImGui::PopID();
  if (removed) panel.run("layout.remove", {{"name", name}});
}

void save(Panel& panel) {
  panel.run("layout.save", {{"name", panel.layout_editor->typed()}});
  panel.layout_editor->name.set_text("");
}

/// The field for a name, and what becomes of it: a name that is there is replaced only by its button.
void draw_save(Panel& panel, const Layouts& layouts) {
  LayoutEditor& editor = *panel.layout_editor;
  const float button = panel.px(76), gap = ImGui::GetStyle().ItemSpacing.x;
  editor.name.draw({.item = "layouts.name",
                    .size = {ImGui::GetContentRegionAvail().x - button - gap, 0},
                    .hint = "Name for the current layout",
                    .focus = ++editor.frames == 2,
                    .own_undo = true});  // not in the first: the key that opens it would be typed
  ImGui::SameLine();
  const bool is_known = line_of(layouts, editor.typed()) < layouts.size();
  ImGui::BeginDisabled(editor.typed().empty());
  if (ImGui::Button(is_known ? "Replace" : "Save", {button, 0})) save(panel);
  ImGui::EndDisabled();
  panel.item("layouts.save");
  if (layouts.empty()) return;
  const views::FontScope font(panel.theme().fonts.small);
  views::wrapped_text_in(
      panel.theme().palette.faint,
      is_known ? "Enter applies it; Alt+R replaces it with the current layout."
               : "Up and Down select, Enter applies, Alt+Del removes. To save, type a new name and press Enter.");
}

/// The window's own queue has them: the field keeps the keyboard meanwhile.
void take_layout_keys(Panel& panel, const Layouts& layouts) {
  LayoutEditor& editor = *panel.layout_editor;
  const std::size_t n = layouts.size();
  for (const std::string& key : panel.ui.popup_keys) {
    const std::string typed = editor.typed();
    const bool is_known = line_of(layouts, typed) < n;
    if (key == "enter") editor.frames = 0;  // the field releases the keyboard
    if (key == "down" && editor.chosen + 1 < n) ++editor.chosen;
    if (key == "up" && editor.chosen > 0) --editor.chosen;
    if ((key == "enter" && !typed.empty() && !is_known) || (key == "alt+r" && is_known)) return save(panel);
    if (key == "enter" && n > 0) return void(panel.run("layout.apply", {{"name", layouts[editor.chosen].name}}));
    if (key == "alt+delete" && n > 0) return void(panel.run("layout.remove", {{"name", layouts[editor.chosen].name}}));
  }
}

}  // namespace

void draw_layouts(Panel& panel) {
  if (!panel.ui.layouts) return panel.layout_editor.reset();
  if (!panel.layout_editor) panel.layout_editor = std::make_shared<LayoutEditor>(panel.services);
  if (begin_popup(panel, "layouts", 460, 0)) {
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "Your layouts");
    ImGui::SameLine(views::right_edge() - panel.px(70));
    if (ImGui::Button("Close", {panel.px(70), 0})) panel.ui.layouts = false;
    panel.item("layouts.close");
    const Layouts layouts = panel.ui.own_layouts;  // a line may remove one
    std::size_t& chosen = panel.layout_editor->chosen;
    if (const std::size_t typed = line_of(layouts, panel.layout_editor->typed()); typed < layouts.size())
      chosen = typed;
    chosen = std::min(chosen, std::max<std::size_t>(layouts.size(), 1) - 1);
    for (std::size_t i = 0; i < layouts.size(); ++i) draw_own_layout(panel, layouts[i].name, i == chosen);
    if (layouts.empty())
      views::wrapped_text_in(panel.theme().palette.muted,
                             "None yet. A layout stores which panels and views the window shows, and where.");
    ImGui::Dummy({0, panel.px(2)});
    draw_save(panel, layouts);
    take_layout_keys(panel, layouts);
  }
  ImGui::End();
}

}  // namespace kvscope::app
