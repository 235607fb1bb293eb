#pragma once
// The given layouts as buttons with their keys.

#include "app/window/panel.h"

namespace kvscope::app {

/// At the right end of a line with `room` points: with keys, or without them, or nothing, so that `least` stay for others.
/// Returns what it leaves. The layout that is on show stands out.
float draw_layout_bar(Panel& panel, float room, float least);

}  // namespace kvscope::app
