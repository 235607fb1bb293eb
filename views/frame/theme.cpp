#include "views/frame/theme.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "views/figure/figure_builder.h"
#include "views/figure/font_files.h"
#include "views/frame/machine_font.h"

namespace kvscope::views {
namespace {

Palette make_palette(bool dark) {
  const auto of = [dark](std::uint32_t in_dark, std::uint32_t in_light) -> Colour {
    const std::uint32_t v = dark ? in_dark : in_light;
    return {static_cast<std::uint8_t>(v >> 16), static_cast<std::uint8_t>(v >> 8), static_cast<std::uint8_t>(v), 255};
  };
  return {.background = of(0x141619, 0xeff1f3),
          .panel = of(0x1b1e22, 0xffffff),
          .raised = of(0x262a30, 0xe9ecef),
          .border = of(0x353b43, 0xd0d5da),
          .text = of(0xe6e8eb, 0x1b1e22),
          .muted = of(0xadb5be, 0x4a545e),
          .faint = of(0x8a939d, 0x626b74),
          .line = of(0x69727c, 0x8d969f),
          .accent = of(0x5aacec, 0x0b64ab),
          .good = of(0x55bd93, 0x14704e),
          .warn = of(0xe8ad45, 0x8a5b00),
          .bad = of(0xee7b6f, 0xb0342a),
          .preview = preview_colour(dark)};
}

// JetBrains Mono lacks arrows and CJK, Inter block elements: what one lacks the next one merges in.
ImFont* add_font(ImFontAtlas& atlas, float size, std::initializer_list<FontFile> files, bool& found) {
  ImFont* font = nullptr;
  for (FontFile file : files) {
    if (font_file(file).empty()) continue;
    ImFontConfig config;
    config.MergeMode = font != nullptr;
    config.OversampleH = 2;
    config.OversampleV = 1;
    config.PixelSnapH = false;
    ImFont* added = atlas.AddFontFromFileTTF(font_file(file).c_str(), size, &config);
    if (font == nullptr) font = added;
  }
  found = found || font != nullptr;
  ImFontConfig config;
  config.SizePixels = size;
  if (font == nullptr) font = atlas.AddFontDefaultVector(&config);
  config.MergeMode = true;
  config.DstFont = font;
  config.FontLoader = machine_font();
  atlas.AddFont(&config);
  return font;
}

}  // namespace

Theme make_theme(bool dark, float scale) {
  Theme theme;
  theme.dark = dark;
  theme.scale = std::clamp(scale, 0.5f, 4.f);
  theme.palette = make_palette(dark);
  return theme;
}

// As much of the accent as leaves text in the accent readable. Pressed, a button sinks into what is behind it; on white, where
// many have no fill of their own, it has the plain fill.
ButtonColours plain_button(const Theme& theme) {
  const Palette& p = theme.palette;
  return {.fill = p.raised,
          .hovered = mix(p.raised, p.accent, theme.dark ? 0.12 : 0.08),
          .active = theme.dark ? p.background : p.raised,
          .ink = p.text};
}

ButtonColours accent_button(const Theme& theme) {
  const Colour accent = theme.palette.accent, black{0, 0, 0, 255}, white{255, 255, 255, 255};
  return {.fill = accent,
          .hovered = mix(accent, white, 0.1),
          .active = mix(accent, black, 0.15),
          .ink = theme.dark ? Colour{12, 20, 28, 255} : white};
}

ButtonStyle::ButtonStyle(const ButtonColours& colours, bool on) : on_(on) {
  if (!on_) return;
  ImGui::PushStyleColor(ImGuiCol_Button, to_imgui(colours.fill));
  ImGui::PushStyleColor(ImGuiCol_ButtonHovered, to_imgui(colours.hovered));
  ImGui::PushStyleColor(ImGuiCol_ButtonActive, to_imgui(colours.active));
  ImGui::PushStyleColor(ImGuiCol_Text, to_imgui(colours.ink));
}
ButtonStyle::~ButtonStyle() {
  if (on_) ImGui::PopStyleColor(4);
}

FigureStyle Theme::figure_style(double width, double height) const {
  FigureStyle style;
  style.width = width;
  style.height = height;
  style.label_size = px(11.5f);
  style.tick_size = px(10.f);
  style.dark = dark;
  style.paper = palette.panel;
  style.ink = palette.text;
  style.muted = palette.muted;
  style.rule = palette.line;
  style.rule_width = 1;
  return style;
}

void apply_theme(const Theme& theme) {
  const Palette& p = theme.palette;
  ImGuiStyle& style = ImGui::GetStyle();
  style = ImGuiStyle();
  theme.dark ? ImGui::StyleColorsDark(&style) : ImGui::StyleColorsLight(&style);
  style.WindowRounding = 0;
  style.ChildRounding = 4;
  style.FrameRounding = style.PopupRounding = style.GrabRounding = style.TabRounding = 4;
  style.ScrollbarRounding = 6;
  style.ScrollbarSize = 11;
  style.DockingSeparatorSize = 6;
  style.FramePadding = {8, 4};
  style.ItemSpacing = {8, 6};
  style.ItemInnerSpacing = {6, 4};
  style.WindowPadding = {12, 10};
  style.CellPadding = {6, 3};
  style.WindowBorderSize = 0;
  style.ChildBorderSize = style.PopupBorderSize = 1;
  style.FrameBorderSize = theme.dark ? 0.f : 1.f;
  style.ScaleAllSizes(theme.scale);

  const auto set = [&](ImGuiCol which, Colour c, int alpha = 255) {
    style.Colors[which] = to_imvec4(with_alpha(c, static_cast<std::uint8_t>(alpha)));
  };
  set(ImGuiCol_Text, p.text);
  set(ImGuiCol_TextDisabled, p.muted);
  set(ImGuiCol_WindowBg, p.background);
  set(ImGuiCol_ChildBg, p.panel);
  set(ImGuiCol_PopupBg, p.raised);
  set(ImGuiCol_Border, p.border);
  set(ImGuiCol_FrameBg, p.raised);
  set(ImGuiCol_FrameBgHovered, mix(p.raised, p.accent, 0.18));
  set(ImGuiCol_FrameBgActive, mix(p.raised, p.accent, 0.30));
  set(ImGuiCol_TitleBg, p.background);
  set(ImGuiCol_TitleBgActive, p.background);
  set(ImGuiCol_MenuBarBg, p.background);
  set(ImGuiCol_ScrollbarBg, p.panel, 0);
  set(ImGuiCol_ScrollbarGrab, p.border);
  set(ImGuiCol_ScrollbarGrabHovered, p.line);
  set(ImGuiCol_ScrollbarGrabActive, p.muted);
  set(ImGuiCol_CheckMark, p.accent);
  set(ImGuiCol_SliderGrab, p.accent);
  set(ImGuiCol_SliderGrabActive, p.accent);
  set(ImGuiCol_Button, p.raised);
  set(ImGuiCol_ButtonHovered, plain_button(theme).hovered);
  set(ImGuiCol_ButtonActive, plain_button(theme).active);
  set(ImGuiCol_Header, mix(p.panel, p.accent, 0.22));
  set(ImGuiCol_HeaderHovered, mix(p.panel, p.accent, 0.30));
  set(ImGuiCol_HeaderActive, mix(p.panel, p.accent, 0.38));
  set(ImGuiCol_Separator, p.background);  // between docked views a gap, until it is pointed at
  set(ImGuiCol_SeparatorHovered, p.accent);
  set(ImGuiCol_SeparatorActive, p.accent);
  set(ImGuiCol_Tab, p.background);
  set(ImGuiCol_TabHovered, mix(p.panel, p.accent, 0.30));
  set(ImGuiCol_TabSelected, p.panel);
  set(ImGuiCol_TabDimmed, p.background);
  set(ImGuiCol_TabDimmedSelected, p.panel);
  set(ImGuiCol_TabSelectedOverline, p.accent);
  set(ImGuiCol_TabDimmedSelectedOverline, p.border);
  set(ImGuiCol_DockingPreview, p.accent, 110);
  set(ImGuiCol_DockingEmptyBg, p.background);
  set(ImGuiCol_NavCursor, p.accent);
  set(ImGuiCol_TableHeaderBg, p.raised);
  set(ImGuiCol_TableBorderStrong, p.border);
  set(ImGuiCol_TableBorderLight, mix(p.panel, p.border, 0.6));
  set(ImGuiCol_TableRowBgAlt, p.text, 8);
  set(ImGuiCol_TextSelectedBg, p.accent, 90);
  set(ImGuiCol_PlotHistogram, p.accent);
}

bool load_fonts(Theme& theme) {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Clear();
  bool found = false;
  const auto size = [&](float px) { return std::max(6.f, std::round(theme.px(px))); };
  using enum FontFile;
  theme.fonts.text = add_font(atlas, size(16), {inter, dejavu}, found);
  theme.fonts.small = add_font(atlas, size(14), {inter, dejavu}, found);
  theme.fonts.bold = add_font(atlas, size(16), {inter_bold, dejavu_bold, dejavu}, found);
  theme.fonts.title = add_font(atlas, size(21), {inter_bold, dejavu_bold}, found);
  theme.fonts.mono = add_font(atlas, size(16), {jetbrains_mono, dejavu_mono, inter, dejavu}, found);
  ImGui::GetIO().FontDefault = theme.fonts.text;
  return found;
}

}  // namespace kvscope::views
