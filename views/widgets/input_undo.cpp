#include "views/widgets/input_undo.h"

#include "views/widgets/imgui_compat.h"

namespace kvscope::views {

void forget_input_undo() {
  if (!ImGui::IsItemActivated()) return;
  if (ImGuiInputTextState* text = ImGui::GetInputTextState(ImGui::GetItemID())) clear_undo(*text);
}

}  // namespace kvscope::views
