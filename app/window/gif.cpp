#include "app/window/gif.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "app/window/palette_cut.h"

namespace kvscope::app {
namespace {

constexpr int kUnchanged = 255;  // transparent: the picture before shows
constexpr int kCodeBits = 8;

void put16(std::string& to, int value) {
  to += static_cast<char>(value & 255);
  to += static_cast<char>(value >> 8);
}

/// Codes of rising width, in blocks of at most 255 bytes.
class CodeBits {
 public:
  explicit CodeBits(std::string& to) : to_(to) {}
  void put(int code, int width) {
    bits_ |= static_cast<std::uint32_t>(code) << n_bits_;
    for (n_bits_ += width; n_bits_ >= 8; n_bits_ -= 8, bits_ >>= 8) byte();
  }
  void finish() {
    if (n_bits_ > 0) byte();
    flush();
    to_ += '\0';
  }

 private:
  void byte() {
    block_ += static_cast<char>(bits_ & 255);
    if (block_.size() == 255) flush();
  }
  void flush() {
    if (block_.empty()) return;
    to_ += static_cast<char>(block_.size());
    to_ += std::exchange(block_, {});
  }
  std::string& to_;
  std::string block_;
  std::uint32_t bits_ = 0;
  int n_bits_ = 0;
};

/// LZW, as GIF has it: a string that the table lacks is written as its longest known part and becomes an entry.
void compress(std::span<const unsigned char> pixels, std::string& to) {
  constexpr int kClear = 1 << kCodeBits, kEnd = kClear + 1, kMost = 4096;
  // next[string][pixel]: the code of a string with that pixel after it, 0 for none. 2 MB, cleared with the table.
  std::vector<std::array<std::uint16_t, 256>> next(kMost);
  to += static_cast<char>(kCodeBits);
  CodeBits out(to);
  int width = kCodeBits + 1, n_codes = kEnd + 1;
  out.put(kClear, width);
  int string = pixels.front();
  for (const unsigned char pixel : pixels.subspan(1)) {
    if (const int longer = next[static_cast<std::size_t>(string)][pixel]; longer != 0) {
      string = longer;
      continue;
    }
    out.put(string, width);
    if (n_codes < kMost) {
      next[static_cast<std::size_t>(string)][pixel] = static_cast<std::uint16_t>(n_codes);
      if (n_codes++ == 1 << width) ++width;
    } else {
      out.put(kClear, width);
      std::ranges::fill(next, std::array<std::uint16_t, 256>{});
      width = kCodeBits + 1, n_codes = kEnd + 1;
    }
    string = pixel;
  }
  out.put(string, width);
  if (n_codes == 1 << width && n_codes < kMost) ++width;  // as a reader counts, an entry later
  out.put(kEnd, width);
  out.finish();
}

}  // namespace

GifWriter::GifWriter(int width, int height) : width_(width), height_(height) {
  bytes_ = "GIF89a";
  put16(bytes_, width), put16(bytes_, height);
  bytes_ += std::string("\x70\0\0", 3);  // no colours for all pictures
  bytes_ += std::string("\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0", 19);
}

GifWriter::Area GifWriter::changed(std::span<const unsigned char> rgba) const {
  if (last_.empty()) return {0, 0, width_, height_};
  int left = width_, right = -1, top = height_, bottom = -1;
  for (int y = 0; y < height_; ++y) {
    const auto* now = &rgba[static_cast<std::size_t>(y) * width_ * 4];
    const auto* before = &last_[static_cast<std::size_t>(y) * width_ * 4];
    if (std::memcmp(now, before, static_cast<std::size_t>(width_) * 4) == 0) continue;
    top = std::min(top, y), bottom = y;
    int x = 0;
    while (std::memcmp(now + 4 * x, before + 4 * x, 3) == 0 && x + 1 < width_) ++x;
    left = std::min(left, x);
    for (x = width_ - 1; x > right && std::memcmp(now + 4 * x, before + 4 * x, 3) == 0;) --x;
    right = std::max(right, x);
  }
  if (bottom < 0 || right < left) return {};
  return {left, top, right - left + 1, bottom - top + 1};
}

void GifWriter::add(std::span<const unsigned char> rgba, int ms) {
  const Area area = changed(rgba);
  if (area.width == 0) return void(waiting_ms_ += ms);
  write_waiting();
  std::vector<std::uint32_t> colours;  // 0xrrggbb; of pixels that change
  std::vector<bool> changes;
  for (int y = area.y; y < area.y + area.height; ++y) {
    for (int x = area.x; x < area.x + area.width; ++x) {
      const std::size_t at = (static_cast<std::size_t>(y) * width_ + x) * 4;
      changes.push_back(last_.empty() || std::memcmp(&rgba[at], &last_[at], 3) != 0);
      if (changes.back())
        colours.push_back(static_cast<std::uint32_t>(rgba[at]) << 16 | static_cast<std::uint32_t>(rgba[at + 1]) << 8 |
                          rgba[at + 2]);
    }
  }
  const PaletteCut palette(colours, kUnchanged);
  std::vector<unsigned char> pixels;
  auto colour = colours.begin();
  std::uint32_t last = 0;
  int index = -1;
  for (const bool change : changes) {
    if (change && (index < 0 || *colour != last)) index = palette.index(last = *colour);
    colour += change;
    pixels.push_back(static_cast<unsigned char>(change ? index : kUnchanged));
  }

  waiting_ = ",";
  for (const int value : {area.x, area.y, area.width, area.height}) put16(waiting_, value);
  waiting_ += '\x87';  // 256 colours of its own
  for (int i = 0; i < 256; ++i) {
    const std::uint32_t one = palette.colour(i);
    for (const int shift : {16, 8, 0}) waiting_ += static_cast<char>(one >> shift & 255);
  }
  compress(pixels, waiting_);
  waiting_ms_ = ms;
  last_.assign(rgba.begin(), rgba.end());
}

void GifWriter::write_waiting() {
  if (waiting_.empty()) return;
  bytes_ += std::string("\x21\xf9\x04\x05", 4);  // stays; one colour is transparent
  put16(bytes_, std::clamp((waiting_ms_ + 5) / 10, 0, 65535));
  bytes_ += static_cast<char>(kUnchanged);
  bytes_ += '\0';
  bytes_ += std::exchange(waiting_, {});
}

std::string GifWriter::finish() {
  write_waiting();
  bytes_ += ';';
  return std::move(bytes_);
}

}  // namespace kvscope::app
