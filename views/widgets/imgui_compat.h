#pragma once
// What differs between ImGui 1.86 (Debian 12) and newer ones, in one place.

#include <imgui.h>

namespace kvscope::views {

/// Top and base line of a capital letter, from the top of the line, at `size` pixels.
struct CapSpan {
  float top, bottom;
};

#if IMGUI_VERSION_NUM >= 19200
inline CapSpan cap_span(ImFont* font, float size) {
  const ImFontGlyph* glyph = font->GetFontBaked(size)->FindGlyph('H');
  return {glyph->Y0, glyph->Y1};
}
inline bool has_glyph(ImFont* font, ImWchar c) { return font->IsGlyphInFont(c); }
inline float font_size(ImFont* font) { return font->LegacySize; }
inline float glyph_advance(ImFont* font, ImWchar c) { return font->GetFontBaked(font->LegacySize)->GetCharAdvance(c); }
/// Of the size that it was drawn at last.
inline const ImVector<ImFontGlyph>& glyphs_of(const ImFont& font) { return font.LastBaked->Glyphs; }
inline void push_font(ImFont* font) { ImGui::PushFont(font, font->LegacySize); }
/// More of them than before: characters that had none may have one.
inline int n_glyphs(ImFont* font) { return font->GetFontBaked(font->LegacySize)->Glyphs.Size; }
#else
inline CapSpan cap_span(ImFont* font, float size) {
  const ImFontGlyph* glyph = font->FindGlyph('H');
  const float k = size / font->FontSize;
  return {glyph->Y0 * k, glyph->Y1 * k};
}
inline bool has_glyph(ImFont* font, ImWchar c) { return font->FindGlyphNoFallback(c) != nullptr; }
inline float font_size(ImFont* font) { return font->FontSize; }
inline float glyph_advance(ImFont* font, ImWchar c) { return font->GetCharAdvance(c); }
inline const ImVector<ImFontGlyph>& glyphs_of(const ImFont& font) { return font.Glyphs; }
inline void push_font(ImFont* font) { ImGui::PushFont(font); }
inline int n_glyphs(ImFont* font) { return font->Glyphs.Size; }
#endif

/// Width of one line in `font` at its own size.
inline float text_width(ImFont* font, const char* begin, const char* end = nullptr) {
  return font->CalcTextSizeA(font_size(font), 1e9f, 0, begin, end).x;
}

}  // namespace kvscope::views
