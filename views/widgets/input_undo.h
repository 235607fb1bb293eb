#pragma once
// Undo within ImGui's text fields.

namespace kvscope::views {

/// After each ImGui::InputText() whose text may change without an edit: a field that is entered has nothing to undo.
/// ImGui keeps the steps of the field that was edited last; one that points past the end of a text that is shorter by
/// then ends the program.
void forget_input_undo();

}  // namespace kvscope::views
