#include "views/widgets/input_undo.h"

#include <imgui.h>
#include <imgui_internal.h>

namespace kvscope::views {

void forget_input_undo() {
  if (!ImGui::IsItemActivated()) return;
  ImGuiInputTextState* text = ImGui::GetInputTextState(ImGui::GetItemID());
  if (text == nullptr) return;
#if IMGUI_VERSION_NUM >= 19130
  auto& undo = text->Stb->undostate;
  undo.redo_point = IMSTB_TEXTEDIT_UNDOSTATECOUNT, undo.redo_char_point = IMSTB_TEXTEDIT_UNDOCHARCOUNT;
#else
  auto& undo = text->Stb.undostate;
  undo.redo_point = STB_TEXTEDIT_UNDOSTATECOUNT, undo.redo_char_point = STB_TEXTEDIT_UNDOCHARCOUNT;
#endif
  undo.undo_point = 0, undo.undo_char_point = 0;
}

}  // namespace kvscope::views
