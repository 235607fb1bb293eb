#include "app/window/layout_bar.h"

#include <imgui.h>

#include <string>
#include <vector>

#include "app/command/layouts.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr float kGap = 4, kFromRest = 12;

std::string label_of(const LayoutPreset& layout, bool keys) {
  return std::string(layout.label) + (keys ? "  " + std::string(layout.shortcut) : "");
}

float width_of(const Panel& panel, bool keys) {
  float width = 0;
  for (const LayoutPreset& layout : layout_presets())
    width +=
        ImGui::CalcTextSize(label_of(layout, keys).c_str()).x + 2 * ImGui::GetStyle().FramePadding.x + panel.px(kGap);
  return width - panel.px(kGap);
}

}  // namespace

float draw_layout_bar(Panel& panel, float room, float least) {
  const float rest = room - least - panel.px(kFromRest);
  const bool keys = width_of(panel, true) <= rest;
  const float width = width_of(panel, keys);
  if (width > rest) return room;
  const ImVec2 at = ImGui::GetCursorPos();
  ImGui::SetCursorPos({at.x + room - width, at.y});
  const bool has_study = panel.session.studies().open_studies().shown(panel.session.selection().study) != nullptr;
  for (const LayoutPreset& layout : layout_presets()) {
    const bool on = is_shown(layout, panel.ui, has_study);
    const auto& palette = panel.theme().palette;
    if (on) ImGui::PushStyleColor(ImGuiCol_Button, views::to_imgui(views::mix(palette.panel, palette.accent, 0.30)));
    if (ImGui::Button(label_of(layout, keys).c_str())) panel.run("layout." + std::string(layout.name));
    if (on) ImGui::PopStyleColor();
    panel.services.items->add_text("layout." + std::string(layout.name), views::last_item(), label_of(layout, keys));
    tooltip(panel, std::string(layout.title) + " (" + std::string(layout.shortcut) + ")");
    ImGui::SameLine(0, panel.px(kGap));
  }
  ImGui::SetCursorPos(at);
  return room - width - panel.px(kFromRest);
}

}  // namespace kvscope::app
