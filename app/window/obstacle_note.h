#pragma once
// Why the run cannot begin, with a button for each thing that would let it.

#include <vector>

#include "app/session/obstacles.h"

namespace kvscope::app {

struct Panel;

/// In the command bar, `width` pixels wide: the first obstacle in at most two lines and its remedies, as many as leave it
/// room. Draws nothing if there is none. Items run.obstacle, run.remedy.0 ...
void draw_obstacle_in_bar(Panel& panel, const std::vector<Obstacle>& list, float width);
/// In a panel: all but the first, which the bar has. Items policy.refusal, policy.remedy.0 ...
void draw_obstacles(Panel& panel, const std::vector<Obstacle>& list);

}  // namespace kvscope::app
