#pragma once
// A heat map as textures: one upload when the data changes, one quad a frame however many cells there are.

#include <imgui.h>

#include <memory>
#include <vector>

#include "views/figure/figure.h"
#include "views/frame/texture.h"

namespace kvscope::views {

class HeatMap {
 public:
  explicit HeatMap(TextureBackend& textures) : textures_(&textures) {}
  /// Uploads columns x rows cells, cut into tiles where the back end's largest texture is smaller.
  void set(const Image& image);
  void clear() { tiles_.clear(); }
  bool empty() const { return tiles_.empty(); }
  void draw(ImDrawList& list, ImVec2 min, ImVec2 max) const;

 private:
  struct Tile {
    int x, y, width, height;
    std::unique_ptr<Texture> texture;
  };
  TextureBackend* textures_;
  int columns_ = 0, rows_ = 0;
  std::vector<Tile> tiles_;
};

}  // namespace kvscope::views
