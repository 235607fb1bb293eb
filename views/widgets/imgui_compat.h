#pragma once
// What differs between ImGui 1.86 (Debian 12) and newer ones, in one place.

#include <imgui.h>
#include <imgui_internal.h>

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

#if IMGUI_VERSION_NUM >= 18900
/// Its own queue would keep some of a frame's input for later frames: ours has cut it into frames already.
inline void take_input_as_it_comes() { ImGui::GetIO().ConfigInputTrickleEventQueue = false; }
inline constexpr bool kBackEndKnowsLetters = true;  // of the keyboard's layout
/// Its back end reads modifiers and mouse from its callbacks and from the present, which our queue has not reached yet.
inline void set_modifiers(bool ctrl, bool shift, bool alt, bool super) {
  ImGuiIO& io = ImGui::GetIO();
  io.AddKeyEvent(ImGuiMod_Ctrl, ctrl), io.AddKeyEvent(ImGuiMod_Shift, shift);
  io.AddKeyEvent(ImGuiMod_Alt, alt), io.AddKeyEvent(ImGuiMod_Super, super);
}
inline void move_mouse(double x, double y) {
  ImGui::GetIO().AddMousePosEvent(static_cast<float>(x), static_cast<float>(y));
}
inline bool is_key_down(ImGuiKey key) { return ImGui::IsKeyDown(key); }
inline constexpr ImGuiKey kKeypadEnter = ImGuiKey_KeypadEnter;
/// Enter presses the control that keys have chosen, before NewFrame().
inline void let_enter_press() {}
/// With Ctrl, Shift or Alt it is a shortcut's key and presses nothing, after NewFrame().
inline void let_shortcuts_press_nothing() {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  const ImGuiIO& io = g.IO;
  if (io.KeyCtrl || io.KeyShift || io.KeyAlt || io.KeySuper)
    g.NavActivateId = g.NavActivateDownId = g.NavActivatePressedId = 0;
}
inline bool is_pressed_by_program() { return false; }
inline bool is_hoverable(const ImRect& box, ImGuiID id) {
  return ImGui::ItemHoverable(box, id, ImGui::GetCurrentContext()->LastItemData.InFlags);
}
/// Whether keyboard navigation asks for the item that was added last.
inline bool chosen_by_keys(ImGuiID id) { return ImGui::GetCurrentContext()->NavActivateId == id; }
/// The active item hears all keys: none of them moves on to another control.
inline void keep_all_keys() { ImGui::SetActiveIdUsingAllKeyboardKeys(); }
#else
inline void take_input_as_it_comes() {}
inline constexpr bool kBackEndKnowsLetters = false;
inline void set_modifiers(bool, bool, bool, bool) {}
inline void move_mouse(double, double) {}
inline bool is_key_down(ImGuiKey key) { return ImGui::IsKeyDown(ImGui::GetKeyIndex(key)); }
inline constexpr ImGuiKey kKeypadEnter = ImGuiKey_KeyPadEnter;
// To ImGui 1.86 Enter opens a field for text and presses nothing; space alone does. So it is pressed in the frame in which
// it goes down, unless with Ctrl: then it is a shortcut, also while it is still held after that.
inline void let_enter_press() {
  ImGuiIO& io = ImGui::GetIO();
  const auto goes_down = [&](ImGuiKey key) {
    const int index = io.KeyMap[key];
    return index >= 0 && io.KeysDown[index] && io.KeysDownDuration[index] < 0;
  };
  const bool is_shortcut = io.KeyCtrl || io.KeyShift || io.KeyAlt || io.KeySuper;
  if (!is_shortcut && (goes_down(ImGuiKey_Enter) || goes_down(kKeypadEnter))) io.NavInputs[ImGuiNavInput_Activate] = 1;
}
inline void let_shortcuts_press_nothing() {}
inline bool is_pressed_by_program() { return ImGui::GetIO().NavInputs[ImGuiNavInput_Activate] > 0; }
inline bool is_hoverable(const ImRect& box, ImGuiID id) { return ImGui::ItemHoverable(box, id); }
inline bool chosen_by_keys(ImGuiID id) {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  return (g.LastItemData.StatusFlags & ImGuiItemStatusFlags_FocusedByTabbing) != 0 || g.NavActivateInputId == id ||
         g.NavActivateId == id;
}
inline void keep_all_keys() {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  g.ActiveIdUsingNavDirMask = ~static_cast<ImU32>(0);
  g.ActiveIdUsingNavInputMask = ~static_cast<ImU32>(0);
  g.ActiveIdUsingKeyInputMask = ~static_cast<ImU64>(0);
}
#endif

/// An empty list of undo and redo.
inline void clear_undo(ImGuiInputTextState& text) {
#if IMGUI_VERSION_NUM >= 19130
  auto& undo = text.Stb->undostate;
#else
  auto& undo = text.Stb.undostate;
#endif
#ifdef IMSTB_TEXTEDIT_UNDOSTATECOUNT  // the names of 1.90
  undo.redo_point = IMSTB_TEXTEDIT_UNDOSTATECOUNT, undo.redo_char_point = IMSTB_TEXTEDIT_UNDOCHARCOUNT;
#else
  undo.redo_point = STB_TEXTEDIT_UNDOSTATECOUNT, undo.redo_char_point = STB_TEXTEDIT_UNDOCHARCOUNT;
#endif
  undo.undo_point = 0, undo.undo_char_point = 0;
}

/// Width of one line in `font` at its own size.
inline float text_width(ImFont* font, const char* begin, const char* end = nullptr) {
  return font->CalcTextSizeA(font_size(font), 1e9f, 0, begin, end).x;
}

}  // namespace kvscope::views
