#include "views/widgets/heat_map.h"

#include <algorithm>

namespace kvscope::views {

void HeatMap::set(const Image& image) {
  columns_ = image.columns;
  rows_ = image.rows;
  const int side = textures_->max_side();
  std::size_t n = 0;
  std::vector<std::uint32_t> pixels;
  for (int y = 0; y < rows_; y += side) {
    for (int x = 0; x < columns_; x += side, ++n) {
      const int w = std::min(side, columns_ - x), h = std::min(side, rows_ - y);
      pixels.clear();
      for (int r = y; r < y + h; ++r) {
        for (int c = x; c < x + w; ++c) {
          const Colour k = image.pixels[static_cast<std::size_t>(r) * columns_ + c];
          pixels.push_back(IM_COL32(k.r, k.g, k.b, k.a));
        }
      }
      if (n == tiles_.size()) tiles_.push_back({0, 0, 0, 0, std::make_unique<Texture>(*textures_)});
      tiles_[n].texture->assign(w, h, pixels);
      tiles_[n].x = x, tiles_[n].y = y, tiles_[n].width = w, tiles_[n].height = h;
    }
  }
  tiles_.resize(n);
}

void HeatMap::draw(ImDrawList& list, ImVec2 min, ImVec2 max) const {
  const float kx = (max.x - min.x) / static_cast<float>(std::max(columns_, 1));
  const float ky = (max.y - min.y) / static_cast<float>(std::max(rows_, 1));
  // A value has the colour of its cell alone. Without a renderer there are no samplers.
  const ImGuiPlatformIO& platform = ImGui::GetPlatformIO();
  const auto sample = [&](ImDrawCallback how) {
    if (how != nullptr) list.AddCallback(how, nullptr);
  };
  sample(platform.DrawCallback_SetSamplerNearest);
  for (const Tile& tile : tiles_) {
    const ImVec2 from{min.x + tile.x * kx, min.y + tile.y * ky};
    list.AddImage(tile.texture->id(), from, {from.x + tile.width * kx, from.y + tile.height * ky});
  }
  sample(platform.DrawCallback_SetSamplerLinear);
}

}  // namespace kvscope::views
