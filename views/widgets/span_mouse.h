#pragma once
// Zooming and panning with the mouse, the same in every view that has time along its x axis.

#include <imgui.h>

#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

/// Marks a range of tokens while Shift and the left button are held from one token to another; a Shift click without a
/// way lets it go. `token` is under the mouse, -1 for none. True while the mouse is taken, so that it selects nothing.
bool drag_brush(Selection& selection, std::int32_t token, bool hovered);

/// Rows that the mouse moves besides the time.
struct RowAxis {
  TokenSpan* rows;  // that are shown, of `n`; empty: all
  int n;
  int least = kLeastSpan;   // that zooming leaves
  bool from_top = false;    // where row 0 is
  bool with_time = false;   // the wheel zooms both axes, with Ctrl the time alone; else with Ctrl the rows alone
  bool left_drags = false;  // the left button too
};

/// Wheel zooms at the cursor, Shift+wheel and a sideways wheel scroll, the right or middle button drags, a double click
/// fits. With rows, a drag moves both axes. One object a view: it remembers the drag.
class SpanMouse {
 public:
  enum class Shows : std::uint8_t {
    view,  // the area shows the selection's span: what is under the mouse is dragged along
    run    // it shows the whole run, in which the span is moved
  };
  /// `hovered`: the mouse is over the area and nothing lies on it.
  void handle(ViewContext& context, ImVec2 min, ImVec2 max, bool hovered, Shows shows = Shows::view,
              const RowAxis* rows = nullptr);
  /// The same where the area shows `drawn`: a part of the selection's span, or more than the run has.
  void handle_part(ViewContext& context, ImVec2 min, ImVec2 max, bool hovered, TokenSpan drawn);

 private:
  void wheel(ViewContext& context, ImVec2 min, ImVec2 max, Shows shows, const RowAxis* rows);
  void drag(ViewContext& context, ImVec2 min, ImVec2 max, Shows shows, const RowAxis* rows);

  int button_ = -1;  // that drags
  TokenSpan span_, rows_;
};

/// "12 tokens/px" where more than one falls on a pixel, in that upper corner; else nothing. Item `item`.
void tokens_per_pixel_mark(const ViewServices& services, const char* item, TokenSpan span, float width, ImVec2 corner,
                           bool at_left = false);
/// The same as text; empty where every token has a pixel.
std::string tokens_per_pixel(TokenSpan span, float width);

}  // namespace kvscope::views
