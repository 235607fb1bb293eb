#pragma once
// The time deck under the views: the whole of run A's selected head over time, the part of it that the views show, the
// scrub position, and what moves it.

#include "views/frame/view_services.h"
#include "views/selection/view_state.h"
#include "views/widgets/heat_map.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/span_mouse.h"

namespace kvscope::views {

/// Clicking or dragging the map scrubs; the bar above it is the part that the views show: dragged it pans, at its ends
/// it is resized. Wheel, right drag and double click as in the views.
/// Items: "timeline.scrub" (the map), "timeline.viewport" (the bar's thumb), "timeline.playhead", "timeline.live", and
/// the buttons "timeline.play", ".back", ".on", ".speed", ".loop", ".go_to", ".find", ".fit"; "timeline.range" and ".heights" are text.
class TimeDeck {
 public:
  explicit TimeDeck(const ViewServices& services);
  /// Fills the content region's width. A low deck has the map alone.
  void draw(ViewContext& context, float height);

 private:
  struct Key {
    RunKey run;
    int layer, kv_head, columns;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  struct Area {
    ImVec2 min, max;
    int n;  // tokens
    float width() const { return max.x - min.x; }
    float x(double token) const { return min.x + static_cast<float>(token / n) * width(); }
    double token(float px) const { return static_cast<double>(px - min.x) / width() * n; }
  };
  enum class Grip : std::uint8_t { none, begin, body, end };

  void draw_controls(ViewContext& context, float height);
  void draw_range_text(const ViewContext& context, float right);
  void draw_viewport(ViewContext& context, const Area& lane, const Area& map);
  void drag_viewport(ViewContext& context, const Area& lane);
  void draw_map(ViewContext& context, const Area& map);
  void draw_mini_map(ViewContext& context, const Area& map);
  float strip_height(float height, bool full) const;
  void draw_strip(const ViewContext& context, ImVec2 min, float right);
  void draw_axis(const ViewContext& context, const Area& map);
  void draw_flag(const ViewContext& context, int index, const Area& map);
  void draw_playhead(ViewContext& context, const Area& map);

  ViewServices services_;
  HeatMap map_;
  Rebuild<Key> rebuild_;
  int most_cached_ = 0, most_evicted_ = 0;
  SpanMouse mouse_;
  Grip grip_ = Grip::none;
  TokenSpan grip_span_;
  double grip_token_ = 0;
};

}  // namespace kvscope::views
