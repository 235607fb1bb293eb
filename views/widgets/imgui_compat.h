#pragma once
// What this window asks of Dear ImGui beyond its public interface, in one place.

#include <imgui.h>
#include <imgui_internal.h>

namespace kvscope::views {

/// Top and base line of a capital letter, from the top of the line, at `size` pixels.
struct CapSpan {
  float top, bottom;
};
inline CapSpan cap_span(ImFont* font, float size) {
  const ImFontGlyph* glyph = font->GetFontBaked(size)->FindGlyph('H');
  return {glyph->Y0, glyph->Y1};
}
inline bool has_glyph(ImFont* font, ImWchar c) { return font->IsGlyphInFont(c); }
inline float font_size(ImFont* font) { return font->LegacySize; }
inline float glyph_advance(ImFont* font, ImWchar c) { return font->GetFontBaked(font->LegacySize)->GetCharAdvance(c); }
inline void push_font(ImFont* font) { ImGui::PushFont(font, font->LegacySize); }

/// Where the content of the current window or column ends: from the window's left edge, and on the screen.
inline float right_edge() { return ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x; }
inline float right_edge_on_screen() { return ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x; }

/// Before the end of a window or child whose content reaches to the cursor, without an item there.
inline void end_content_at_cursor() {
  if (ImGui::GetCurrentWindow()->DC.IsSetPos) ImGui::Dummy({0, 0});
}

/// Its back end reads them from the present, which our queue has not reached yet.
inline void set_modifiers(bool ctrl, bool shift, bool alt, bool super) {
  ImGuiIO& io = ImGui::GetIO();
  io.AddKeyEvent(ImGuiMod_Ctrl, ctrl), io.AddKeyEvent(ImGuiMod_Shift, shift);
  io.AddKeyEvent(ImGuiMod_Alt, alt), io.AddKeyEvent(ImGuiMod_Super, super);
}
/// With Ctrl, Shift or Alt a key is a shortcut's and presses no control, after NewFrame().
inline void let_shortcuts_press_nothing() {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  const ImGuiIO& io = g.IO;
  if (io.KeyCtrl || io.KeyShift || io.KeyAlt || io.KeySuper)
    g.NavActivateId = g.NavActivateDownId = g.NavActivatePressedId = 0;
}
/// Width of one line in `font` at its own size.
inline float text_width(ImFont* font, const char* begin, const char* end = nullptr) {
  return font->CalcTextSizeA(font_size(font), 1e9f, 0, begin, end).x;
}

}  // namespace kvscope::views
