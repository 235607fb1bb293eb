#pragma once
// Text as placed glyphs, with fall-back from font to font: the same measure for layout, PDF, PNG and SVG.

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "views/figure/figure.h"

typedef struct _cairo_font_face cairo_font_face_t;

namespace kvscope::views {

/// Advance width in points. Without any font file, 0.56 em a character. Safe from every thread.
double text_width(std::string_view utf8, FontRole role, double size);
/// Cut at the end with an ellipsis to at most `width`.
std::string shortened(std::string text, FontRole role, double size, double width);
/// Height of a capital letter in points.
double cap_height(FontRole role, double size);

struct PlacedGlyph {
  unsigned long index;  // in its font
  double x;             // from the start of the text
  int n_bytes;          // of GlyphRun::utf8
};
/// Glyphs of one font.
struct GlyphRun {
  cairo_font_face_t* face;  // owned by the font set, lives as long as the process
  std::string utf8;
  std::vector<PlacedGlyph> glyphs;
};

/// The one lock over FreeType and Cairo's fonts: hold it while glyph runs are made and painted.
std::recursive_mutex& font_lock();
/// Characters that no installed font has are written as U+XXXX, invalid bytes as U+FFFD. Throws Error (resource) if no
/// font file is installed at all.
std::vector<GlyphRun> place_glyphs(std::string_view utf8, FontRole role, double size);

}  // namespace kvscope::views
