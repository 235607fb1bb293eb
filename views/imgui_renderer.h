#pragma once
// Draws a figure into ImGui's draw list: the window shows the very model that an export renders.

#include <imgui.h>

#include <vector>

#include "views/figure/figure.h"
#include "views/frame/theme.h"
#include "views/widgets/heat_map.h"

namespace kvscope::views {

/// Keeps the textures of one figure's images. set() when the figure changed, draw() each frame.
class FigureDrawing {
 public:
  explicit FigureDrawing(TextureBackend& textures) : textures_(&textures) {}
  /// Uploads the images.
  void set(Figure figure);
  const Figure& figure() const { return figure_; }
  /// `origin` is where the figure's top left corner goes, `scale` pixels per point.
  void draw(ImDrawList& list, ImVec2 origin, float scale, const Theme& theme) const;

 private:
  TextureBackend* textures_;
  Figure figure_;
  std::vector<HeatMap> images_;  // one per Image, in the order of the items
};

}  // namespace kvscope::views
