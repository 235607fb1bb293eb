#pragma once

namespace kvscope::app {

struct Panel;

/// The canvas while there is no run on show: what can be done first, or the prompt that the engine is reading.
void draw_welcome(Panel& panel);

}  // namespace kvscope::app
