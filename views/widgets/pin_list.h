#pragma once
// The pins of A's text one below the other: where each is, what was noted, and the way there.

#include <string>

#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

/// "L3 H1, token 812 “ Thus”", or why the run does not show it.
std::string pin_line(const RunRecord& run, const PlacedPin& placed);
/// Nothing where there is no pin. A click on a line goes there: items "pins.a", "pins.b" ...
void draw_pin_list(const ViewServices& services, ViewContext& context);

}  // namespace kvscope::views
