#include "app/window/escape_key.h"

#include <imgui.h>

namespace kvscope::app {

void press_escape(UiState& ui, views::Selection& selection, bool typing) {
  if (ui.film) {
    ui.film->stop = true;
  } else if (ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) {  // a list that was opened in a popup closes before it
    ui.close_popup = !ui.keyboard;                                // else ImGui closes it
  } else if (ui.has_popup()) {
    ui.close_popups();
  } else if (typing && ui.keyboard && !ui.find && !ui.go_to) {
    return;  // the field gives the keys back to what is around it
  } else if (ui.keyboard) {
    ui.keyboard = false;
  } else if (ui.find || ui.go_to) {
    ui.find.reset(), ui.go_to.reset();
  } else if (typing) {
    return;
  } else if (!selection.find.empty()) {
    selection.find.clear();
  } else if (!selection.brush.empty()) {
    selection.brush = {};
  } else if (!selection.heads.empty()) {
    selection.heads = {};
  } else if (!selection.runs.empty()) {
    selection.runs.clear();
  } else {
    selection.token = -1;
  }
}

}  // namespace kvscope::app
