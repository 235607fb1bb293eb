#pragma once
// The fixed regions of the window and the splitters between them.

#include <imgui.h>

#include <memory>
#include <span>

#include "app/window/panel.h"
#include "views/view_state.h"
#include "views/widgets/time_deck.h"

namespace kvscope::app {

/// Sizes that splitters change, in design pixels and shares; a double click on a splitter restores its default.
struct CockpitSizes {
  float left = 372, right = 330, bottom = 132, log = 150;
  float strip = 0.46f;  // height of the token strip in the canvas
  float map = 0.42f;    // width of the map under it
};

class Cockpit {
 public:
  /// Fills the window: command bar, left rail, banners, canvas, inspector, time deck, status line, popups.
  void draw(Panel& panel, views::ViewContext& context, std::span<const std::unique_ptr<views::View>> views,
            views::TimeDeck& time_deck);

 private:
  void draw_canvas(Panel& panel, views::ViewContext& context, std::span<const std::unique_ptr<views::View>> views,
                   ImVec2 at, ImVec2 size);
  void draw_view(Panel& panel, views::ViewContext& context, views::View& view, ImVec2 at, ImVec2 size);
  void draw_left(Panel& panel, ImVec2 at, ImVec2 size);

  CockpitSizes sizes_;
};

}  // namespace kvscope::app
