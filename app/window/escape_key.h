#pragma once
// What Escape does.

#include "app/command/ui_state.h"
#include "views/selection/view_state.h"

namespace kvscope::app {

/// Closes or ends one thing, the innermost there is: a popup, the keyboard's mark, the find bar, a search, a marked range,
/// marked heads, a set of runs, the cursor. What is marked stays while the user types (`typing`).
void press_escape(UiState& ui, views::Selection& selection, bool typing);

}  // namespace kvscope::app
