#pragma once
// What the window has: bars at its top and bottom, and between them views and panels in the dock.

#include <imgui.h>

#include <string>

#include "app/window/dock.h"
#include "app/window/panel.h"
#include "views/frame/view.h"
#include "views/widgets/pin_marks.h"
#include "views/widgets/time_deck.h"

namespace kvscope::app {

inline constexpr float kStatusHeight = 28;  // design pixels

class Cockpit {
 public:
  /// Fills the window.
  void draw(Panel& panel, views::ViewContext& context, const views::ViewList& views, views::TimeDeck& time_deck);

 private:
  float draw_bars(Panel& panel, const views::ViewContext& context);
  void draw_left_and_headline(Panel& panel, float top);
  void draw_messages(Panel& panel);
  void draw_canvas(Panel& panel, views::ViewContext& context, const views::ViewList& views);
  void draw_alone(Panel& panel, views::ViewContext& context, views::View& view);
  void draw_docked(Panel& panel, views::ViewContext& context, const views::ViewList& views, views::View& view);
  void fill_view(Panel& panel, views::ViewContext& context, views::View& view);
  template <typename Draw>
  void draw_panel(Panel& panel, std::string_view id, Draw&& draw);
  void draw_left(Panel& panel, ImVec2 at, ImVec2 size);

  /// Before any view draws: time that plays goes on, and what is searched for and pinned is found.
  void advance(Panel& panel, views::ViewContext& context);

  Dock dock_;
  views::TokenFinder finder_;
  views::PinFinder pins_;
  // As high as what is in them: measured in the frame before.
  float banners_height_ = 48, settings_height_ = 640, runs_height_ = 96;
  std::string under_mouse_;  // the view of this frame
  float message_end_ = 0;    // where the room that the status bar leaves for a message ends
};

}  // namespace kvscope::app
