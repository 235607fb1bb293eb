#pragma once
// The time deck under the views: a mini-map of run A's selected head over time, with the scrub position.

#include <cstdint>

#include "views/view_services.h"
#include "views/view_state.h"
#include "views/widgets/heat_map.h"

namespace kvscope::views {

/// Clicking or dragging scrubs (selection->q, follow off); the "live" button follows the last position again.
/// Items: "timeline.scrub" (the bar), "timeline.playhead", "timeline.live".
class TimeDeck {
 public:
  explicit TimeDeck(const ViewServices& services);
  /// Fills the content region's width.
  void draw(ViewContext& context, float height);

 private:
  void draw_mini_map(ViewContext& context, ImVec2 at, ImVec2 size);
  void draw_playhead(ViewContext& context, ImVec2 at, ImVec2 size);

  ViewServices services_;
  HeatMap map_;
  const void* drawn_run_ = nullptr;
  std::uint64_t drawn_revision_ = 0;
  int drawn_layer_ = -1, drawn_head_ = -1;
  bool drawn_dark_ = false;
};

}  // namespace kvscope::views
