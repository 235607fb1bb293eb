#pragma once
// Fonts and colours of the window, dark and light. State colours are those of the figures.

#include <imgui.h>

#include <cstdint>

#include "views/figure/colormap.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct Fonts {
  ImFont* text = nullptr;   // Inter, lines of 16 px at scale 1
  ImFont* small = nullptr;  // Inter, 14 px
  ImFont* bold = nullptr;   // Inter SemiBold, 16 px
  ImFont* title = nullptr;  // Inter SemiBold, 21 px
  ImFont* mono = nullptr;   // JetBrains Mono, 16 px: token text
};

struct Palette {
  Colour background, panel, raised, border;  // from the far to the near
  Colour text, muted, faint;                 // each reads as text on all three
  Colour line;                               // of axes and outlines: no text, which needs more contrast
  Colour accent;                             // selection, primary button
  Colour good, warn, bad;                    // never alone: always beside a word
  Colour preview;                            // dashed frames and badge of what was not measured
};

struct Theme {
  bool dark = true;
  float scale = 1;  // pixels per point of the design: content scale x the user's zoom
  Palette palette;
  Colormap maps = Colormap::viridis;  // of counts, shares and scores; of differences it is always the diverging one
  Fonts fonts;

  float px(float design_pixels) const { return design_pixels * scale; }
  /// Style of a figure that fills `width` x `height` pixels of the window. Points are pixels then.
  FigureStyle figure_style(double width, double height) const;
};

Theme make_theme(bool dark, float scale);
/// Colours, roundings and paddings of ImGui's current context.
void apply_theme(const Theme& theme);

/// Ink reads on all three fills.
struct ButtonColours {
  Colour fill, hovered, active, ink;
};
/// As apply_theme() has them; muted text and the accent read on them too.
ButtonColours plain_button(const Theme& theme);
/// Of a button that is the first to press, or is on.
ButtonColours accent_button(const Theme& theme);
/// While it lives, buttons have these colours; unless `on`, those of the theme.
class ButtonStyle {
 public:
  ButtonStyle(const ButtonColours& colours, bool on = true);
  ~ButtonStyle();
  ButtonStyle(const ButtonStyle&) = delete;
  ButtonStyle& operator=(const ButtonStyle&) = delete;

 private:
  bool on_;
};

/// Fills ImGui's atlas (cleared first) from the installed fonts and stores the handles in `theme`; Inter, JetBrains
/// Mono and DejaVu are looked up at run time, ImGui's own font is used for what is missing. Characters that they lack
/// come from the machine's other fonts (views/frame/machine_font.h). Returns false if no font file was found.
bool load_fonts(Theme& theme);

inline ImU32 to_imgui(Colour c) { return IM_COL32(c.r, c.g, c.b, c.a); }
inline ImVec4 to_imvec4(Colour c) { return {c.r / 255.f, c.g / 255.f, c.b / 255.f, c.a / 255.f}; }

}  // namespace kvscope::views
