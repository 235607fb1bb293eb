#pragma once
// The two thumbs of a colour bar: the part of its axis that the colours go over.

#include <imgui.h>

#include "views/figure/figure.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/frame/view_services.h"

namespace kvscope::views {

/// One object a bar: it remembers the drag.
class RangeThumbs {
 public:
  /// Draws them at the bar `panel` as items "<item>", "<item>.lo" and "<item>.hi" and lets them be dragged; a double click on the bar
  /// gives the whole axis back. `around_zero`: both are as far from 0. True while the mouse is on it, so that nothing else
  /// takes it.
  bool handle(const ViewServices& services, const char* item, const Panel& panel, ImVec2 origin, const MapScale& scale,
              bool around_zero, bool hovered, ScaleClip& clip);

 private:
  enum class Held : std::uint8_t { none, lo, hi };
  Held held_ = Held::none;
};

}  // namespace kvscope::views
