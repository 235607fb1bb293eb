#include "views/frame/machine_font.h"

#include <fontconfig/fontconfig.h>
#include <ft2build.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>
#include FT_FREETYPE_H

namespace kvscope::views {
namespace {

constexpr float kLinePerEm = 1.2f;  // of Inter: characters of other fonts are as large as its own

/// One character, rows from the top; y grows downwards from the base line.
struct Glyph {
  int width = 0, height = 0, left = 0, top = 0;  // pixels
  float advance = 0;
  bool coloured = false;
  std::vector<std::uint8_t> pixels;  // coverage, or of a coloured one RGBA
};

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

/// The hexadecimal digits of a code point in a frame, in two rows.
Glyph numbered_frame(char32_t point, float line) {
  const int k = std::max(1, static_cast<int>(line / 14));  // pixels of the screen a pixel of the digits
  const int columns = point > 0xffff ? 3 : 2, width = 3 + 4 * columns, height = 15;
  Glyph glyph{.width = width * k,
              .height = height * k,
              .left = k,
              .top = -12 * k,
              .advance = static_cast<float>((width + 2) * k),
              .pixels = {}};
  glyph.pixels.resize(static_cast<std::size_t>(glyph.width) * glyph.height);
  const auto dot = [&](int x, int y, std::uint8_t value) {
    for (int i = 0; i < k * k; ++i)
      glyph.pixels[static_cast<std::size_t>(y * k + i / k) * glyph.width + static_cast<std::size_t>(x * k + i % k)] =
          value;
  };
  for (int x = 0; x < width; ++x) dot(x, 0, 110), dot(x, height - 1, 110);
  for (int y = 0; y < height; ++y) dot(0, y, 110), dot(width - 1, y, 110);
  for (int i = 0; i < 2 * columns; ++i) {
    const auto& digit = kDigits[point >> (4 * (2 * columns - 1 - i)) & 0xf];
    for (int y = 0; y < 5; ++y) {
      for (int x = 0; x < 3; ++x) {
        if (digit[static_cast<std::size_t>(y)] >> (2 - x) & 1)
          dot(2 + 4 * (i % columns) + x, 2 + 6 * (i / columns) + y, 255);
      }
    }
  }
  return glyph;
}

bool is_true(const FcPattern* font, const char* object) {
  FcBool value = FcFalse;
  return FcPatternGetBool(font, object, 0, &value) == FcResultMatch && value;
}

class MachineFonts {
 public:
  MachineFonts() : config_(FcInitLoadConfigAndFonts()) {
    FT_Init_FreeType(&library_);
    if (const char* own = std::getenv("KVSCOPE_FONTS"); own != nullptr && config_ != nullptr)
      FcConfigAppFontAddDir(config_, reinterpret_cast<const FcChar8*>(own));
    FcPattern* wanted = FcNameParse(reinterpret_cast<const FcChar8*>("sans-serif"));
    FcConfigSubstitute(config_, wanted, FcMatchPattern);
    FcDefaultSubstitute(wanted);
    FcResult result{};
    sorted_ = FcFontSort(config_, wanted, FcFalse, nullptr, &result);
    FcPatternDestroy(wanted);
  }
  ~MachineFonts() {
    for (const auto& [key, face] : faces_) {
      if (face != nullptr) FT_Done_Face(face);
    }
    if (library_ != nullptr) FT_Done_FreeType(library_);
    if (sorted_ != nullptr) FcFontSetDestroy(sorted_);
    if (config_ != nullptr) FcConfigDestroy(config_);
  }
  MachineFonts(const MachineFonts&) = delete;
  MachineFonts& operator=(const MachineFonts&) = delete;

  Glyph draw(char32_t point, float line) {
    FT_Face face = find(point);
    if (face == nullptr) return numbered_frame(point, line);
    const bool has_outlines = FT_IS_SCALABLE(face);
    if (has_outlines) {
      const auto em = static_cast<FT_F26Dot6>(line / kLinePerEm * 64);
      if (FT_Set_Char_Size(face, em, em, 72, 72) != 0) return numbered_frame(point, line);
    } else if (!select_strike(face, line)) {
      return numbered_frame(point, line);
    }
    if (FT_Load_Char(face, point, FT_LOAD_RENDER | FT_LOAD_COLOR | FT_LOAD_TARGET_LIGHT) != 0)
      return numbered_frame(point, line);
    const FT_GlyphSlot slot = face->glyph;
    if (slot->bitmap.pixel_mode == FT_PIXEL_MODE_GRAY || slot->bitmap.width == 0) return of_coverage(*slot);
    if (slot->bitmap.pixel_mode != FT_PIXEL_MODE_BGRA) return numbered_frame(point, line);
    return of_colours(*slot, has_outlines ? 1.f : line / kLinePerEm / static_cast<float>(face->size->metrics.y_ppem));
  }

 private:
  /// Of a font that cannot be read nullptr, once and for all.
  FT_Face open(const std::string& file, int index) {
    const auto [it, is_new] = faces_.try_emplace({file, index}, nullptr);
    if (is_new && FT_New_Face(library_, file.c_str(), index, &it->second) != 0) it->second = nullptr;
    return it->second;
  }

  /// A face that has it; nullptr if no font does. A sign that is text before it is an emoji comes from a font of outlines.
  FT_Face find(char32_t point) {
    const bool emoji_first = point >= 0x1f000;
    for (const bool coloured : {emoji_first, !emoji_first}) {
      if (FT_Face face = find(point, coloured)) return face;
    }
    return nullptr;
  }
  FT_Face find(char32_t point, bool coloured) {
    for (int i = 0; sorted_ != nullptr && i < sorted_->nfont; ++i) {
      const FcPattern* font = sorted_->fonts[i];
      FcCharSet* characters = nullptr;
      FcChar8* file = nullptr;
      int index = 0;
      if (FcPatternGetCharSet(font, FC_CHARSET, 0, &characters) != FcResultMatch ||
          !FcCharSetHasChar(characters, point) || is_true(font, FC_COLOR) != coloured ||
          (!coloured && !is_true(font, FC_OUTLINE)) || FcPatternGetString(font, FC_FILE, 0, &file) != FcResultMatch)
        continue;
      FcPatternGetInteger(font, FC_INDEX, 0, &index);
      FT_Face face = open(reinterpret_cast<const char*>(file), index & 0xffff);  // above: a variable font's instance
      if (face != nullptr && FT_Get_Char_Index(face, point) != 0) return face;
    }
    return nullptr;
  }

  /// The smallest of its pictures that need not be enlarged, or the largest.
  static bool select_strike(FT_Face face, float line) {
    int best = -1;
    const auto size = [&](int i) { return face->available_sizes[i].y_ppem; };
    const auto wanted = static_cast<FT_Pos>(line / kLinePerEm * 64);
    for (int i = 0; i < face->num_fixed_sizes; ++i) {
      if (best < 0 || (size(best) < wanted ? size(i) > size(best) : size(i) >= wanted && size(i) < size(best)))
        best = i;
    }
    return best >= 0 && FT_Select_Size(face, best) == 0;
  }

  static Glyph of_coverage(const FT_GlyphSlotRec& slot) {
    const FT_Bitmap& from = slot.bitmap;
    Glyph glyph{.width = static_cast<int>(from.width),
                .height = static_cast<int>(from.rows),
                .left = slot.bitmap_left,
                .top = -slot.bitmap_top,
                .advance = static_cast<float>(slot.advance.x) / 64,
                .pixels = {}};
    for (int y = 0; y < glyph.height; ++y) {
      const unsigned char* row = from.buffer + static_cast<std::ptrdiff_t>(y) * from.pitch;
      glyph.pixels.insert(glyph.pixels.end(), row, row + glyph.width);
    }
    return glyph;
  }

  /// Made smaller by `scale`: each pixel is the mean of those that it covers. FreeType's are BGRA, multiplied by alpha.
  static Glyph of_colours(const FT_GlyphSlotRec& slot, float scale) {
    const FT_Bitmap& from = slot.bitmap;
    const auto scaled = [&](float x) { return static_cast<int>(std::lround(x * scale)); };
    Glyph glyph{.width = std::max(1, scaled(static_cast<float>(from.width))),
                .height = std::max(1, scaled(static_cast<float>(from.rows))),
                .left = scaled(static_cast<float>(slot.bitmap_left)),
                .top = -scaled(static_cast<float>(slot.bitmap_top)),
                .advance = std::round(static_cast<float>(slot.advance.x) / 64 * scale),
                .coloured = true,
                .pixels = {}};
    const auto range = [](int i, int n, unsigned n_from) {
      const unsigned begin = static_cast<unsigned>(i) * n_from / static_cast<unsigned>(n);
      return std::pair(begin, std::max(begin + 1, static_cast<unsigned>(i + 1) * n_from / static_cast<unsigned>(n)));
    };
    for (int y = 0; y < glyph.height; ++y) {
      for (int x = 0; x < glyph.width; ++x) {
        const auto [top, bottom] = range(y, glyph.height, from.rows);
        const auto [left, right] = range(x, glyph.width, from.width);
        unsigned sum[4] = {};
        for (unsigned v = top; v < bottom; ++v) {
          const unsigned char* pixel = from.buffer + static_cast<std::ptrdiff_t>(v) * from.pitch + 4 * left;
          for (unsigned u = left; u < right; ++u, pixel += 4) {
            for (int c = 0; c < 4; ++c) sum[c] += pixel[c];
          }
        }
        const unsigned n = (bottom - top) * (right - left), alpha = sum[3];
        for (const int c : {2, 1, 0})
          glyph.pixels.push_back(static_cast<std::uint8_t>(alpha > 0 ? std::min(255u, sum[c] * 255 / alpha) : 0));
        glyph.pixels.push_back(static_cast<std::uint8_t>(alpha / n));
      }
    }
    return glyph;
  }

  FcConfig* config_ = nullptr;
  FcFontSet* sorted_ = nullptr;
  FT_Library library_ = nullptr;
  std::map<std::pair<std::string, int>, FT_Face> faces_;
};

MachineFonts& machine_fonts() {
  static MachineFonts fonts;
  return fonts;
}

// No index of one font names a character: the character itself does.
int index_of(ImFontAtlas*, ImFontConfig*, ImWchar point) { return static_cast<int>(point); }
bool contains(ImFontAtlas*, ImFontConfig*, int) { return true; }

bool load_glyph(ImFontAtlas* atlas, ImFontConfig* source, ImFontBaked* baked, void*, int index, ImFontGlyph* out,
                float* out_advance) {
  const Glyph glyph = machine_fonts().draw(static_cast<char32_t>(index), baked->Size);
  if (out_advance != nullptr) {
    *out_advance = glyph.advance;
    return true;
  }
  out->AdvanceX = glyph.advance;
  if (glyph.width * glyph.height == 0) return true;
  const ImFontAtlasRectId place = ImFontAtlasPackAddRect(atlas, glyph.width, glyph.height);
  if (place == ImFontAtlasRectId_Invalid) return false;
  ImTextureRect* rect = ImFontAtlasPackGetRect(atlas, place);
  out->X0 = static_cast<float>(glyph.left), out->X1 = out->X0 + static_cast<float>(glyph.width);
  out->Y0 = std::round(baked->Ascent) + static_cast<float>(glyph.top),
  out->Y1 = out->Y0 + static_cast<float>(glyph.height);
  out->Visible = true;
  out->Colored = glyph.coloured;
  out->PackId = place;
  ImFontAtlasBakedSetFontGlyphBitmap(atlas, baked, source, out, rect, glyph.pixels.data(),
                                     glyph.coloured ? ImTextureFormat_RGBA32 : ImTextureFormat_Alpha8,
                                     glyph.width * (glyph.coloured ? 4 : 1));
  return true;
}

}  // namespace

const ImFontLoader* machine_font() {
  static const ImFontLoader loader = [] {
    ImFontLoader made;
    made.Name = "machine";
    made.FontSrcGetGlyphIndexFromCodepoint = index_of;
    made.FontSrcContainsGlyph = contains;
    made.FontBakedLoadGlyph = load_glyph;
    return made;
  }();
  return &loader;
}

void find_machine_fonts() { machine_fonts(); }

}  // namespace kvscope::views
