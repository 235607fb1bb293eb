#include "views/figure/fonts.h"

#include <cairo-ft.h>
#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_ADVANCES_H
#include FT_TRUETYPE_TABLES_H

#include <array>
#include <cstdio>
#include <initializer_list>

#include "engine/core/support/error.h"
#include "engine/core/support/utf8.h"
#include "engine/core/support/utf8_prefix.h"
#include "views/figure/font_files.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

struct Face {
  FT_Face ft = nullptr;
  cairo_font_face_t* cairo = nullptr;
  double cap = 0.72;  // em

  unsigned glyph(char32_t c) const { return FT_Get_Char_Index(ft, c); }
  double advance(unsigned glyph) const {  // em
    FT_Fixed units = 0;
    // Unscaled: the same width at every size and resolution, so that PDF and PNG break alike.
    if (FT_Get_Advance(ft, glyph, FT_LOAD_NO_SCALE, &units) != 0) return 0.5;
    return static_cast<double>(units) / ft->units_per_EM;
  }
};

/// Never freed: Cairo keeps scaled fonts that refer to the faces in its own caches until the process ends.
class FontSet {
 public:
  FontSet() {
    if (FT_Init_FreeType(&library_) != 0) return;
    add(FontRole::text, {FontFile::inter, FontFile::dejavu, FontFile::noto_cjk});
    add(FontRole::bold, {FontFile::inter_bold, FontFile::dejavu_bold, FontFile::inter, FontFile::dejavu});
    add(FontRole::mono,
        {FontFile::jetbrains_mono, FontFile::dejavu_mono, FontFile::inter, FontFile::dejavu, FontFile::noto_cjk});
  }
  const std::vector<Face>& faces(FontRole role) const { return faces_[static_cast<std::size_t>(role)]; }

 private:
  void add(FontRole role, std::initializer_list<FontFile> files) {
    for (FontFile file : files) {
      Face face;
      if (font_file(file).empty() || FT_New_Face(library_, font_file(file).c_str(), 0, &face.ft) != 0) continue;
      face.cairo = cairo_ft_font_face_create_for_ft_face(face.ft, FT_LOAD_NO_HINTING);
      const auto* os2 = static_cast<TT_OS2*>(FT_Get_Sfnt_Table(face.ft, FT_SFNT_OS2));
      if (os2 && os2->version >= 2 && os2->sCapHeight > 0) {
        face.cap = static_cast<double>(os2->sCapHeight) / face.ft->units_per_EM;
      }
      faces_[static_cast<std::size_t>(role)].push_back(face);
    }
  }
  FT_Library library_ = nullptr;
  std::array<std::vector<Face>, 3> faces_;
};

const FontSet& fonts() {
  static const FontSet* set = new FontSet;
  return *set;
}

const Face* face_for(const std::vector<Face>& faces, char32_t c) {
  for (const Face& face : faces) {
    if (face.glyph(c) != 0) return &face;
  }
  return nullptr;
}

/// Calls f(face, code point) for each glyph; characters without a glyph become "U+XXXX".
template <typename F>
void for_each_glyph(std::string_view utf8, const std::vector<Face>& faces, F f) {
  for (std::size_t at = 0; at < utf8.size();) {
    const char32_t c = next_code_point(utf8, at);
    if (const Face* face = face_for(faces, c)) {
      f(*face, c);
      continue;
    }
    char name[16];
    std::snprintf(name, sizeof name, "U+%04X", static_cast<unsigned>(c));
    for (const char* p = name; *p; ++p) f(faces.front(), static_cast<char32_t>(*p));
  }
}

}  // namespace

std::recursive_mutex& font_lock() {
  static std::recursive_mutex lock;
  return lock;
}

double text_width(std::string_view utf8, FontRole role, double size) {
  const std::lock_guard guard(font_lock());
  const auto& faces = fonts().faces(role);
  if (faces.empty()) return 0.56 * size * static_cast<double>(utf8.size());
  double width = 0;
  for_each_glyph(utf8, faces, [&](const Face& face, char32_t c) { width += face.advance(face.glyph(c)); });
  return width * size;
}

std::string shortened(std::string text, FontRole role, double size, double width) {
  if (text_width(text, role, size) <= width) return text;
  while (!text.empty() && text_width(text + "…", role, size) > width)
    text.resize(utf8_prefix(text, text.size() - 1).size());
  return text + "…";
}

double cap_height(FontRole role, double size) {
  const std::lock_guard guard(font_lock());
  const auto& faces = fonts().faces(role);
  return (faces.empty() ? 0.72 : faces.front().cap) * size;
}

std::vector<GlyphRun> place_glyphs(std::string_view utf8, FontRole role, double size) {
  const auto& faces = fonts().faces(role);
  if (faces.empty()) {
    throw Error({ExitCode::resource, "", "fonts", "no font file found", "Inter, JetBrains Mono or DejaVu",
                 "apt install fonts-inter fonts-jetbrains-mono fonts-dejavu-core, or set KVSCOPE_FONTS to a folder"});
  }
  std::vector<GlyphRun> runs;
  double x = 0;
  for_each_glyph(utf8, faces, [&](const Face& face, char32_t c) {
    if (runs.empty() || runs.back().face != face.cairo) runs.push_back({face.cairo, "", {}});
    const std::size_t before = runs.back().utf8.size();
    append_utf8(runs.back().utf8, c);
    const unsigned glyph = face.glyph(c);
    runs.back().glyphs.push_back({glyph, x, static_cast<int>(runs.back().utf8.size() - before)});
    x += face.advance(glyph) * size;
  });
  return runs;
}

}  // namespace kvscope::views
