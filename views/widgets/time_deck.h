#pragma once
// The time deck under the views: a mini-map of run A's selected head over time, with the scrub position.

#include "views/frame/view_services.h"
#include "views/frame/view_state.h"
#include "views/widgets/heat_map.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

/// Clicking or dragging scrubs (selection->q); the "live" button follows the last position again.
/// Items: "timeline.scrub" (the bar), "timeline.playhead", "timeline.live".
class TimeDeck {
 public:
  explicit TimeDeck(const ViewServices& services);
  /// Fills the content region's width.
  void draw(ViewContext& context, float height);

 private:
  struct Key {
    RunKey run;
    int layer, kv_head;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  void draw_mini_map(ViewContext& context, ImVec2 at, ImVec2 size);
  void draw_flag(const ViewContext& context, int index, ImVec2 at, ImVec2 size);
  void draw_playhead(ViewContext& context, ImVec2 at, ImVec2 size);

  ViewServices services_;
  HeatMap map_;
  Rebuild<Key> rebuild_;
};

}  // namespace kvscope::views
