#pragma once
// One object for every view that is open.

#include "app/command/ui_state.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"

namespace kvscope::app {

/// Makes the views that the arrangement has and the list has not, and drops those that were closed. Views that are open
/// beside another of their kind get a look if they have none.
void make_open_views(UiState& ui, views::ViewList& views, const views::ViewServices& services,
                     const views::Selection& selection);

}  // namespace kvscope::app
