#include "app/window/panel.h"

#include <string>

#include "app/command/plain_words.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {

bool Panel::run(std::string_view id, const nlohmann::json& arguments) {
  try {
    commands.execute(id, arguments);
    return true;
  } catch (const Error& error) {
    session.messages().refuse(plain_words(error));
    return false;
  }
}

void Panel::item(std::string_view id) { services.items->add(std::string(id), views::last_item()); }

PopupStyle::PopupStyle(Panel& panel) {
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {panel.px(12), panel.px(10)});
  ImGui::PushStyleVar(ImGuiStyleVar_PopupRounding, panel.px(6));
  ImGui::PushStyleColor(ImGuiCol_Button,
                        views::to_imgui(panel.theme().palette.border));  // a popup has a button's colour
}
PopupStyle::~PopupStyle() {
  ImGui::PopStyleVar(2);
  ImGui::PopStyleColor();
}

void anchor_popup(float height) {
  const float gap = ImGui::GetStyle().ItemInnerSpacing.y, below = ImGui::GetItemRectMax().y + gap;
  const bool fits = below + height <= ImGui::GetIO().DisplaySize.y;
  ImGui::SetNextWindowPos({ImGui::GetItemRectMin().x, fits ? below : ImGui::GetItemRectMin().y - gap}, 0,
                          {0, fits ? 0.f : 1.f});
}

void tooltip(Panel& panel, std::string_view text) { views::hint_of(panel.services, text); }

bool command_button(Panel& panel, const char* label, const char* id, ImVec2 size, bool primary) {
  const Command* command = panel.commands.find(id);
  if (!command) return false;
  const bool enabled = panel.commands.enabled(*command);
  bool pressed = false;
  {
    const views::ButtonStyle style(views::accent_button(panel.theme()), primary);
    ImGui::BeginDisabled(!enabled);
    ImGui::PushID(id);
    pressed = ImGui::Button(label ? label : command->title.c_str(), size);
    ImGui::PopID();
    ImGui::EndDisabled();
  }
  panel.item(std::string("button.") + id);
  const std::string keys = panel.shortcuts.first(*command), why = panel.commands.refusal(*command);
  tooltip(panel, (keys.empty() ? command->title : command->title + "   " + keys) + (why.empty() ? "" : "\n" + why));
  if (pressed) panel.run(id);
  return pressed;
}

void section(Panel& panel, const char* title) {
  ImGui::Dummy({0, panel.px(4)});
  ImGui::AlignTextToFramePadding();
  draw_text(panel.theme().fonts.bold, panel.theme().palette.text, title);
}

// No frame: a collapsing header's reaches over the left padding and is cut by the panel's edge.
bool fold(Panel& panel, const std::string& label, const std::string& item, bool open_at_first) {
  ImGui::PushStyleColor(ImGuiCol_Header, IM_COL32(0, 0, 0, 0));
  ImGui::SetNextItemOpen(open_at_first, ImGuiCond_Once);
  const bool open = ImGui::TreeNodeEx(item.c_str(),
                                      ImGuiTreeNodeFlags_NoTreePushOnOpen | ImGuiTreeNodeFlags_FramePadding |
                                          ImGuiTreeNodeFlags_AllowOverlap | ImGuiTreeNodeFlags_SpanAvailWidth,
                                      "%s", label.c_str());
  ImGui::PopStyleColor();
  panel.services.items->add_text(item, views::last_item(), label);
  return open;
}

void setting(Panel& panel, std::string_view name) {
  ImGui::AlignTextToFramePadding();
  views::text_in(panel.theme().palette.muted, name);
  ImGui::SameLine(panel.px(kLabelWidth));
  ImGui::SetNextItemWidth(-1);
}

}  // namespace kvscope::app
