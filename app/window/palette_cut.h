#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace kvscope::app {

/// At most `most` colours for a picture: its own if they are so few, else a median cut (Heckbert, 1982): the box of colours with
/// the widest side is halved at the median of its pixels until there are enough; each box becomes its mean.
class PaletteCut {
 public:
  /// Colours of pixels, 0xrrggbb. most: 1 to 256.
  PaletteCut(std::span<const std::uint32_t> pixels, int most);

  /// 0 for colours beyond the last.
  std::uint32_t colour(int index) const {
    return static_cast<std::size_t>(index) < colours_.size() ? colours_[static_cast<std::size_t>(index)] : 0;
  }
  /// Of a colour of the pixels.
  unsigned char index(std::uint32_t pixel) const { return index_.at(pixel); }

 private:
  std::vector<std::uint32_t> colours_;
  std::unordered_map<std::uint32_t, unsigned char> index_;
};

}  // namespace kvscope::app
