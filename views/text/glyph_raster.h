#pragma once
// Pictures of single characters from whatever font of the machine has them.

#include <cstdint>
#include <memory>
#include <vector>

namespace kvscope::views {

/// Coverage of one character, rows from the top; y grows downwards from the base line.
struct GlyphBitmap {
  int width = 0, height = 0, left = 0, top = 0;  // pixels; top: of the first row, negative above the base line
  float advance = 0;
  bool found = true;  // false: no font has it, and this is a frame with its number
  std::vector<std::uint8_t> coverage;
};

/// Fonts are those that fontconfig knows, with outlines, in its order for sans serif, and those in $KVSCOPE_FONTS. They are
/// looked for when the first character is drawn, which takes tens of milliseconds. For one thread.
class GlyphRaster {
 public:
  GlyphRaster();
  ~GlyphRaster();
  GlyphRaster(const GlyphRaster&) = delete;
  GlyphRaster& operator=(const GlyphRaster&) = delete;

  /// `line`: ImGui's size of a font, the height of its lines in pixels.
  GlyphBitmap draw(char32_t point, float line);

 private:
  struct Fonts;
  std::unique_ptr<Fonts> fonts_;
};

/// The hexadecimal digits of a code point in a frame, two above two.
GlyphBitmap numbered_frame(char32_t point, float line);

}  // namespace kvscope::views
