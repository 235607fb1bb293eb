#pragma once
// What of a card is below its title, where that can be more than there is room for.

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "views/frame/theme.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {

/// The bar lies in the card's padding: what it scrolls is laid out as without it, and ends before it.
class Scrolled {
 public:
  /// `card`: its width; `padding`: at its sides.
  Scrolled(const Theme& theme, const char* name, float card, float padding) {
    // A frame around the content is not cut off at the left nor, beside the bar, at the right: a window cuts at half of
    // its padding before it. The card cuts at half of its own, and the bar is before that.
    const float frame = theme.px(6), width = card - 1.5f * padding + frame, cut = std::floor(frame / 2);
    ImGui::SetCursorPosX(padding - frame);
    const float content = width - 2 * frame - cut - ImGui::GetStyle().ScrollbarSize;
    ImGui::SetNextWindowContentSize({std::max(1.f, content), 0});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {frame, frame});
    ImGui::BeginChild((std::string(name) + ".scrolled").c_str(), {std::max(1.f, width), 0},
                      ImGuiChildFlags_AlwaysUseWindowPadding | ImGuiChildFlags_NavFlattened);
    ImGui::PopStyleVar();
  }
  ~Scrolled() {
    end_content_at_cursor();
    ImGui::EndChild();
  }
  Scrolled(const Scrolled&) = delete;
  Scrolled& operator=(const Scrolled&) = delete;
};

}  // namespace kvscope::views
