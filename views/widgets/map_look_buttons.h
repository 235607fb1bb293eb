#pragma once
// How the layer x head map is looked at: its scale and its order, a button each.

#include <string>

#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

struct LookRow {
  bool compared = false;  // there is an A | B to choose, whose scales "Lock" is about
  bool one_row = false;   // there is little room
  std::string marked{};   // what is said of marked heads at the button that marks none; empty: there is none
};
/// Items "map.full", "map.fit", "map.lock" (where A and B are compared; dead where they are not side by side, so
/// that the others stay where they are), "map.sort", "map.by_layer". In one row they go on with the row of A | B, and what
/// does not fit opens from the button "..." at its end, item "map.more". True if "All heads" was pressed, item "map.unmark".
bool draw_look_buttons(const ViewServices& services, MapLook& look, const LookRow& row);

}  // namespace kvscope::views
