#pragma once
// The fixed regions of the window and the splitters between them.

#include <imgui.h>

#include <array>
#include <vector>

#include "app/window/panel.h"
#include "views/frame/view.h"
#include "views/widgets/time_deck.h"

namespace kvscope::app {

/// Sizes that splitters change, in design pixels and shares; a double click on a splitter restores its default.
struct CockpitSizes {
  float left = 372, right = 330, bottom = 132, log = 150;
  float strip = 0.46f;  // height of the strips' part of the canvas
};

class Cockpit {
 public:
  /// Fills the window: command bar, left rail, banners, canvas, inspector, time deck, status line, popups.
  void draw(Panel& panel, views::ViewContext& context, const views::ViewList& views, views::TimeDeck& time_deck);

 private:
  void draw_messages(Panel& panel, ImVec2 corner);
  void draw_canvas(Panel& panel, views::ViewContext& context, const views::ViewList& views, ImVec2 at, ImVec2 size);
  void draw_place(Panel& panel, views::ViewContext& context, const views::ViewList& views, views::Place place,
                  ImVec2 at, ImVec2 size);
  void draw_view(Panel& panel, views::ViewContext& context, const views::ViewList& views, views::View& view, ImVec2 at,
                 ImVec2 size);
  void draw_left(Panel& panel, ImVec2 at, ImVec2 size);

  /// Before any view draws: time that plays goes on, and what is searched for is found.
  void advance(Panel& panel, views::ViewContext& context);

  CockpitSizes sizes_;
  views::TokenFinder finder_;
  std::array<std::vector<float>, 3> cuts_;  // of each place: where one view ends and the next begins, as shares
  float banners_height_ = 48;               // as high as their text: measured in the frame before
};

}  // namespace kvscope::app
