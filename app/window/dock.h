#pragma once
// Dear ImGui's docking built from UiState::arrangement, and what a hand changes there read back into it.
//
// The arrangement is the truth: a command, Undo or another window size builds the nodes anew, by shares. A hand that drags a
// tab or a divider changes the nodes; when the button is up, what differs from the nodes as they were built is the new
// arrangement.

#include <imgui.h>

#include <map>
#include <string>
#include <string_view>

#include "app/window/panel.h"
#include "views/frame/view.h"

struct ImGuiDockNode;

namespace kvscope::app {

/// A window's name for Dear ImGui: "Layer x head map###layer_head_map".
std::string dock_name(std::string_view title, std::string_view id);

/// "layer_head_map" of that; the name itself of a window that is not docked.
std::string docked_id(const std::string& window);

class Dock {
 public:
  /// Between ImGui::NewFrame() and the first window that is docked. The place is in pixels.
  void begin(Panel& panel, const views::ViewList& views, ImVec2 at, ImVec2 size);
  /// Before Begin() of a window that may be docked: `tabs` says that it has a tab that can be dragged.
  static void next_window(Panel& panel, bool tabs);
  /// After the last window.
  void end(Panel& panel);

  /// Where views are when all of them are hidden, in pixels.
  ImVec2 views_at() const { return views_at_; }
  ImVec2 views_size() const { return views_size_; }

 private:
  void build(Panel& panel, const views::ViewList& views, ImVec2 at, ImVec2 size);

  Arrangement built_, as_built_;  // what was asked for; what the nodes are when nothing was moved
  ImVec2 at_{}, size_{}, views_at_{}, views_size_{};
  float scale_ = 0;
  int settling_ = 0;  // frames until as_built_ is read
  int dropping_ = 0;  // frames until what a hand has moved is read
};

}  // namespace kvscope::app
