#include "app/window/obstacle_note.h"

#include <algorithm>

#include "app/window/panel.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr float kLeastNote = 260;  // of the obstacle, in two lines

bool remedy_button(Panel& panel, const Remedy& remedy, const std::string& item, float height = 0) {
  ImGui::PushID(item.c_str());
  const bool pressed = ImGui::Button(remedy.label.c_str(), {0, height});
  ImGui::PopID();
  panel.services.items->add_text(item, views::last_item(), remedy.label);
  return pressed;
}

}  // namespace

void draw_obstacle_in_bar(Panel& panel, const std::vector<Obstacle>& list, float width) {
  if (list.empty()) return;
  const Obstacle& first = list.front();
  const auto& palette = panel.theme().palette;
  const views::FontScope font(panel.theme().fonts.small);
  const float height = panel.px(32), padding = 2 * ImGui::GetStyle().FramePadding.x + panel.px(10);
  // The first remedy always, the others where they leave the text its room.
  std::size_t shown = 0;
  float buttons = 0;
  for (const Remedy& remedy : first.remedies) {
    const float more = ImGui::CalcTextSize(remedy.label.c_str()).x + padding;
    if (shown > 0 && width - buttons - more < panel.px(kLeastNote)) break;
    buttons += more, ++shown;
  }
  const float room = std::max(panel.px(60), width - buttons);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float text_width = std::min(room, ImGui::CalcTextSize(first.text.c_str()).x + 1);
  const float lines = ImGui::CalcTextSize(first.text.c_str(), nullptr, false, text_width).y;
  const views::Colour colour = first.passes ? palette.muted : palette.warn;
  ImGui::PushClipRect(at, {at.x + room, at.y + height}, true);
  ImGui::GetWindowDrawList()->AddText(nullptr, 0, {at.x, at.y + std::max(0.f, (height - lines) / 2)},
                                      views::to_imgui(colour), first.text.c_str(), nullptr, text_width);
  ImGui::PopClipRect();
  ImGui::Dummy({text_width, height});
  panel.services.items->add_text("run.obstacle", views::last_item(), first.text);
  tooltip(panel, first.text);
  for (std::size_t i = 0; i < shown; ++i) {
    ImGui::SameLine(0, panel.px(10));
    if (remedy_button(panel, first.remedies[i], "run.remedy." + std::to_string(i), height))
      panel.run(first.remedies[i].command, first.remedies[i].arguments);
  }
}

void draw_obstacles(Panel& panel, const std::vector<Obstacle>& list) {
  const views::FontScope font(panel.theme().fonts.small);
  int number = 0;
  for (std::size_t i = 1; i < list.size(); ++i) {
    const Obstacle& obstacle = list[i];
    if (obstacle.passes) continue;
    wrapped_text_in(panel.theme().palette.warn, obstacle.text);
    if (i == 1) panel.services.items->add_text("policy.refusal", views::last_item(), obstacle.text);
    float used = 0;
    for (const Remedy& remedy : obstacle.remedies) {
      const float width = ImGui::CalcTextSize(remedy.label.c_str()).x + 2 * ImGui::GetStyle().FramePadding.x;
      if (used > 0 && used + width < ImGui::GetContentRegionAvail().x) ImGui::SameLine();
      used = used > 0 && used + width < ImGui::GetContentRegionAvail().x ? used + width : width;
      if (remedy_button(panel, remedy, "policy.remedy." + std::to_string(number++)))
        panel.run(remedy.command, remedy.arguments);
    }
  }
}

}  // namespace kvscope::app
