#include "views/text/glyph_raster.h"

#include <fontconfig/fontconfig.h>
#include <ft2build.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include FT_FREETYPE_H

namespace kvscope::views {
namespace {

constexpr float kLinePerEm = 1.2f;  // of Inter: characters of other fonts are as large as its own

// 0 to F, three columns by five rows, a row each three bits from the top.
constexpr std::array<std::array<std::uint8_t, 5>, 16> kDigits = {{{7, 5, 5, 5, 7},
                                                                  {2, 6, 2, 2, 7},
                                                                  {7, 1, 7, 4, 7},
                                                                  {7, 1, 3, 1, 7},
                                                                  {5, 5, 7, 1, 1},
                                                                  {7, 4, 7, 1, 7},
                                                                  {7, 4, 7, 5, 7},
                                                                  {7, 1, 1, 2, 2},
                                                                  {7, 5, 7, 5, 7},
                                                                  {7, 5, 7, 1, 7},
                                                                  {2, 5, 7, 5, 5},
                                                                  {6, 5, 6, 5, 6},
                                                                  {7, 4, 4, 4, 7},
                                                                  {6, 5, 5, 5, 6},
                                                                  {7, 4, 6, 4, 7},
                                                                  {7, 4, 6, 4, 4}}};

bool is_true(const FcPattern* font, const char* object) {
  FcBool value = FcFalse;
  return FcPatternGetBool(font, object, 0, &value) == FcResultMatch && value;
}

}  // namespace

struct GlyphRaster::Fonts {
  Fonts() : config(FcInitLoadConfigAndFonts()) {
    FT_Init_FreeType(&library);
    if (const char* own = std::getenv("KVSCOPE_FONTS"); own != nullptr && config != nullptr)
      FcConfigAppFontAddDir(config, reinterpret_cast<const FcChar8*>(own));
    FcPattern* wanted = FcNameParse(reinterpret_cast<const FcChar8*>("sans-serif"));
    FcConfigSubstitute(config, wanted, FcMatchPattern);
    FcDefaultSubstitute(wanted);
    FcResult result{};
    sorted = FcFontSort(config, wanted, FcFalse, nullptr, &result);
    FcPatternDestroy(wanted);
  }
  ~Fonts() {
    for (const auto& [key, face] : faces) {
      if (face != nullptr) FT_Done_Face(face);
    }
    if (library != nullptr) FT_Done_FreeType(library);
    if (sorted != nullptr) FcFontSetDestroy(sorted);
    if (config != nullptr) FcConfigDestroy(config);
  }
  Fonts(const Fonts&) = delete;
  Fonts& operator=(const Fonts&) = delete;

  /// Of a font that cannot be read nullptr, once and for all.
  FT_Face open(const std::string& file, int index) {
    const auto [it, is_new] = faces.try_emplace({file, index}, nullptr);
    if (is_new && FT_New_Face(library, file.c_str(), index, &it->second) != 0) it->second = nullptr;
    return it->second;
  }

  /// A face with an outline for it; nullptr if no font has one.
  FT_Face find(char32_t point) {
    for (int i = 0; sorted != nullptr && i < sorted->nfont; ++i) {
      const FcPattern* font = sorted->fonts[i];
      FcCharSet* characters = nullptr;
      FcChar8* file = nullptr;
      int index = 0;
      if (FcPatternGetCharSet(font, FC_CHARSET, 0, &characters) != FcResultMatch ||
          !FcCharSetHasChar(characters, point) || is_true(font, FC_COLOR) || !is_true(font, FC_OUTLINE) ||
          FcPatternGetString(font, FC_FILE, 0, &file) != FcResultMatch)
        continue;
      FcPatternGetInteger(font, FC_INDEX, 0, &index);
      FT_Face face = open(reinterpret_cast<const char*>(file), index & 0xffff);  // above: a variable font's instance
      if (face != nullptr && FT_Get_Char_Index(face, point) != 0) return face;
    }
    return nullptr;
  }

  FcConfig* config = nullptr;
  FcFontSet* sorted = nullptr;
  FT_Library library = nullptr;
  std::map<std::pair<std::string, int>, FT_Face> faces;
};

GlyphRaster::GlyphRaster() = default;
GlyphRaster::~GlyphRaster() = default;

GlyphBitmap GlyphRaster::draw(char32_t point, float line) {
  if (!fonts_) fonts_ = std::make_unique<Fonts>();
  FT_Face face = fonts_->find(point);
  const auto em = static_cast<FT_F26Dot6>(line / kLinePerEm * 64);
  if (face == nullptr || FT_Set_Char_Size(face, em, em, 72, 72) != 0 ||
      FT_Load_Char(face, point, FT_LOAD_RENDER | FT_LOAD_TARGET_LIGHT) != 0)
    return numbered_frame(point, line);
  const FT_GlyphSlot slot = face->glyph;
  const FT_Bitmap& from = slot->bitmap;
  GlyphBitmap glyph{.width = static_cast<int>(from.width),
                    .height = static_cast<int>(from.rows),
                    .left = slot->bitmap_left,
                    .top = -slot->bitmap_top,
                    .advance = static_cast<float>(slot->advance.x) / 64,
                    .coverage = {}};
  if (from.pixel_mode != FT_PIXEL_MODE_GRAY && glyph.width * glyph.height > 0) return numbered_frame(point, line);
  for (int y = 0; y < glyph.height; ++y) {
    const unsigned char* row = from.buffer + static_cast<std::ptrdiff_t>(y) * from.pitch;
    glyph.coverage.insert(glyph.coverage.end(), row, row + glyph.width);
  }
  return glyph;
}

GlyphBitmap numbered_frame(char32_t point, float line) {
  const int k = std::max(1, static_cast<int>(line / 14));  // pixels of the screen a pixel of the digits
  const int width = 11, height = 15;
  GlyphBitmap glyph{.width = width * k,
                    .height = height * k,
                    .left = k,
                    .top = -12 * k,
                    .advance = static_cast<float>((width + 2) * k),
                    .found = false,
                    .coverage = {}};
  glyph.coverage.resize(static_cast<std::size_t>(glyph.width) * glyph.height);
  const auto dot = [&](int x, int y, std::uint8_t value) {
    for (int i = 0; i < k * k; ++i)
      glyph.coverage[static_cast<std::size_t>(y * k + i / k) * glyph.width + static_cast<std::size_t>(x * k + i % k)] =
          value;
  };
  for (int x = 0; x < width; ++x) dot(x, 0, 110), dot(x, height - 1, 110);
  for (int y = 0; y < height; ++y) dot(0, y, 110), dot(width - 1, y, 110);
  for (int i = 0; i < 4; ++i) {
    const auto& digit = kDigits[point >> (4 * (3 - i)) & 0xf];
    for (int y = 0; y < 5; ++y) {
      for (int x = 0; x < 3; ++x) {
        if (digit[static_cast<std::size_t>(y)] >> (2 - x) & 1) dot(2 + 4 * (i % 2) + x, 2 + 6 * (i / 2) + y, 255);
      }
    }
  }
  return glyph;
}

}  // namespace kvscope::views
