// Messages above the views: what happened, and one thing to do about it. Never a dialog in the way.

#include <string>

#include "app/window/panel.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {

void draw_banners(Panel& panel) {
  const auto& palette = panel.theme().palette;
  const std::vector<Banner> banners = panel.session.messages().banners();  // a copy: buttons change the list
  for (std::size_t i = 0; i < banners.size(); ++i) {
    const Banner& banner = banners[i];
    const views::Colour colour = banner.kind == Banner::Kind::error     ? palette.bad
                                 : banner.kind == Banner::Kind::warning ? palette.warn
                                                                        : palette.accent;
    ImGui::PushID(banner.id);
    const float buttons =
        panel.px(34) + (banner.command.empty() ? 0 : ImGui::CalcTextSize(banner.button.c_str()).x + panel.px(28));
    const float text_width = ImGui::GetContentRegionAvail().x - buttons - panel.px(30);
    const std::string text = escape_for_terminal(banner.text, 800);
    const float text_height = ImGui::CalcTextSize(text.c_str(), nullptr, false, text_width).y;
    const float height = std::max(text_height + panel.px(16), panel.px(42));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 end{at.x + ImGui::GetContentRegionAvail().x, at.y + height};
    ImDrawList& list = *ImGui::GetWindowDrawList();
    list.AddRectFilled(at, end, views::to_imgui(palette.raised), panel.px(5));
    list.AddRectFilled(at, {at.x + panel.px(4), end.y}, views::to_imgui(colour), panel.px(2));
    ImGui::SetCursorScreenPos({at.x + panel.px(16), at.y + (height - text_height) / 2});
    ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + text_width);
    views::text_in(palette.text, text);
    ImGui::PopTextWrapPos();
    ImGui::SetCursorScreenPos({end.x - buttons, at.y + (height - panel.px(28)) / 2});
    if (!banner.command.empty()) {
      if (ImGui::Button(banner.button.c_str(), {0, panel.px(28)})) {
        panel.run(banner.command);
        panel.session.messages().dismiss_banner(banner.id);
      }
      panel.item("banner." + std::to_string(i) + ".button");
      ImGui::SameLine(0, panel.px(6));
    }
    if (ImGui::Button("×", {panel.px(28), panel.px(28)})) panel.session.messages().dismiss_banner(banner.id);
    panel.item("banner." + std::to_string(i) + ".close");
    ImGui::SetCursorScreenPos({at.x, end.y + panel.px(6)});
    ImGui::Dummy({0, 0});
    ImGui::PopID();
  }
}

}  // namespace kvscope::app
