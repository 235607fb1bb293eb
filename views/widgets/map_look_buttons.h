#pragma once
// How the layer x head map is looked at: its scale and its order, a button each.

#include "views/frame/view_services.h"
#include "views/frame/view_state.h"

namespace kvscope::views {

/// Items "map.full", "map.fit", "map.lock" (where A and B stand beside each other), "map.sort", "map.by_layer". one_row:
/// what does not fit in the row opens from the button "..." at its end, item "map.more".
void draw_look_buttons(const ViewServices& services, MapLook& look, bool beside, bool one_row);

}  // namespace kvscope::views
