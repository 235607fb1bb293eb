#include "views/figure/colormap.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "engine/core/support/error.h"
#include "views/figure/state_colours.h"
#include "views/frame/theme.h"

using namespace kvscope;
using namespace kvscope::views;

namespace {

/// CIE lightness of the luminance, 0 ... 100.
double lightness(Colour c) {
  const double y = (contrast(c, Colour{0, 0, 0}) * 0.05) - 0.05;
  return y > 0.008856 ? 116 * std::cbrt(y) - 16 : 903.3 * y;
}

/// The colour as an eye without red-green vision sees it (Machado, Oliveira, Fernandes 2009, severity 1, on linear
/// RGB).
Colour as_seen(Colour c, bool deutan) {
  constexpr double kProtan[9] = {0.152286, 1.052583,  -0.204868, 0.114503, 0.786281,
                                 0.099216, -0.003882, -0.048116, 1.051998};
  constexpr double kDeutan[9] = {0.367322, 0.860646,  -0.227968, 0.280085, 0.672501,
                                 0.047413, -0.011820, 0.042940,  0.968881};
  const double* m = deutan ? kDeutan : kProtan;
  const auto linear = [](std::uint8_t v) { return std::pow(v / 255.0, 2.2); };
  const auto coded = [](double v) {
    return static_cast<std::uint8_t>(std::lround(255 * std::pow(std::clamp(v, 0.0, 1.0), 1 / 2.2)));
  };
  const double r = linear(c.r), g = linear(c.g), b = linear(c.b);
  return {coded(m[0] * r + m[1] * g + m[2] * b), coded(m[3] * r + m[4] * g + m[5] * b),
          coded(m[6] * r + m[7] * g + m[8] * b), 255};
}

double distance(Colour a, Colour b) { return std::hypot(a.r - b.r, a.g - b.g, a.b - b.b); }

}  // namespace

TEST_CASE("sequential maps begin and end at their published colours and grow lighter all the way") {
  CHECK(sample(Colormap::viridis, 0) == Colour{0x44, 0x01, 0x54, 255});
  CHECK(sample(Colormap::viridis, 1) == Colour{0xfd, 0xe7, 0x25, 255});
  CHECK(sample(Colormap::cividis, 0) == Colour{0x00, 0x22, 0x4e, 255});
  CHECK(sample(Colormap::cividis, 1) == Colour{0xfe, 0xe8, 0x38, 255});
  const Colormap map = GENERATE(Colormap::viridis, Colormap::cividis);
  for (int i = 1; i <= 64; ++i) CHECK(lightness(sample(map, i / 64.0)) > lightness(sample(map, (i - 1) / 64.0)));
}

TEST_CASE("the diverging map is lightest in the middle and alike on both sides in lightness") {
  const double middle = lightness(sample(Colormap::diverging, 0.5));
  for (double d : {0.1, 0.25, 0.4, 0.5}) {
    const double below = lightness(sample(Colormap::diverging, 0.5 - d)),
                 above = lightness(sample(Colormap::diverging, 0.5 + d));
    CHECK(below < middle);
    CHECK(above < middle);
    CHECK(below == Approx(above).margin(12));  // of 100: hues differ, neither side may look like the stronger one
  }
}

TEST_CASE("values outside the scale take its ends, and no value is transparent") {
  const ColourScale scale{Colormap::viridis, 2, 4, 0, ""};
  CHECK(scale(-10) == scale(2));
  CHECK(scale(99) == scale(4));
  CHECK(scale(std::nan("")).a == 0);
}

TEST_CASE("a discrete scale gives every count its own colour, the ends the map's ends") {
  const int n_heads = GENERATE(1, 4, 8, 32);
  const ColourScale scale{Colormap::viridis, 0, static_cast<double>(n_heads), n_heads + 1, ""};
  CHECK(scale(0) == sample(Colormap::viridis, 0));
  CHECK(scale(n_heads) == sample(Colormap::viridis, 1));
  for (int k = 1; k <= n_heads; ++k) CHECK_FALSE(scale(k) == scale(k - 1));
}

TEST_CASE("text on any cell of a map reads with at least 4.5 : 1") {
  const Colormap map = GENERATE(Colormap::viridis, Colormap::cividis, Colormap::diverging, Colormap::grey);
  for (int i = 0; i <= 255; ++i) {
    const Colour cell = sample(map, i / 255.0);
    CHECK(contrast(ink_on(cell), cell) >=
          4.3);  // mid grey allows at most 4.58 for black or white; black here is #111111
  }
}

TEST_CASE("token states and verdicts stay apart for red-green blind eyes") {
  const bool dark = GENERATE(true, false), deutan = GENERATE(true, false);
  const std::array states = {TokenState::sink, TokenState::window, TokenState::kept, TokenState::evicted};
  for (TokenState a : states) {
    for (TokenState b : states) {
      if (a == b) continue;
      INFO(state_name(a) << " and " << state_name(b));
      // 40 of 441: about ten just noticeable steps.
      CHECK(distance(as_seen(state_colour(a, dark), deutan), as_seen(state_colour(b, dark), deutan)) > 40);
    }
  }
  const std::array verdicts = {Verdict::kept_rightly, Verdict::kept_wrongly, Verdict::missed, Verdict::dropped_rightly};
  for (Verdict a : verdicts) {
    for (Verdict b : verdicts) {
      if (a == b) continue;
      CHECK(distance(as_seen(verdict_colour(a, dark), deutan), as_seen(verdict_colour(b, dark), deutan)) > 40);
    }
  }
}

TEST_CASE("text in both themes reads with at least 4.5 : 1") {
  const bool dark = GENERATE(true, false);
  const Palette p = make_theme(dark, 1).palette;
  for (Colour background : {p.background, p.panel, p.raised}) {
    for (Colour ink : {p.text, p.muted, p.faint, p.accent, p.good, p.warn, p.bad}) {
      CHECK(contrast(ink, background) >= 4.5);
    }
    CHECK(contrast(p.line, background) >= 2.5);  // seen beside its text, and never read alone
  }
  // A chosen row or tab has the accent behind its text.
  for (double share : {0.22, 0.30, 0.38}) CHECK(contrast(p.text, mix(p.panel, p.accent, share)) >= 4.5);
  CHECK(contrast(ink_on(p.preview), p.preview) >= 4.5);
}

TEST_CASE("muted text is told from plain text, and faint text from muted") {
  const bool dark = GENERATE(true, false);
  const Palette p = make_theme(dark, 1).palette;
  CHECK(contrast(p.muted, p.panel) >= 1.3 * contrast(p.faint, p.panel));
  CHECK(contrast(p.text, p.panel) >= 1.5 * contrast(p.muted, p.panel));
}

TEST_CASE("an unknown colour map is refused with the list of those that exist") {
  CHECK(parse_colormap("cividis") == Colormap::cividis);
  CHECK_THROWS_WITH(parse_colormap("jet"),
                    Catch::Contains("jet") && Catch::Contains("viridis, cividis, diverging, grey"));
}

// "All", while it was on: white on the pale blue of what is hovered.
TEST_CASE("text on buttons reads with at least 4.5 : 1, hovered and pressed too") {
  const bool dark = GENERATE(true, false);
  CAPTURE(dark);
  const Theme theme = make_theme(dark, 1);
  const ButtonColours plain = plain_button(theme), accent = accent_button(theme);
  for (Colour fill : {plain.fill, plain.hovered, plain.active}) {
    for (Colour ink : {plain.ink, theme.palette.muted, theme.palette.accent}) CHECK(contrast(ink, fill) >= 4.5);
  }
  for (Colour fill : {accent.fill, accent.hovered, accent.active}) CHECK(contrast(accent.ink, fill) >= 4.5);
  CHECK(contrast(plain.hovered, plain.fill) > 1.05);  // and what is hovered is seen
}

TEST_CASE("A button's own colours end with what it was drawn in, and the others' are the theme's") {
  const std::unique_ptr<ImGuiContext, decltype(&ImGui::DestroyContext)> context(ImGui::CreateContext(),
                                                                                &ImGui::DestroyContext);
  const Theme theme = make_theme(false, 1);
  apply_theme(theme);
  const auto now = [](ImGuiCol which) { return ImGui::GetColorU32(which); };
  CHECK(now(ImGuiCol_ButtonHovered) == to_imgui(plain_button(theme).hovered));
  {
    const ButtonStyle style(accent_button(theme));
    CHECK(now(ImGuiCol_ButtonHovered) == to_imgui(accent_button(theme).hovered));
    CHECK(now(ImGuiCol_Text) == to_imgui(accent_button(theme).ink));
    const ButtonStyle off(plain_button(theme), false);
    CHECK(now(ImGuiCol_Button) == to_imgui(accent_button(theme).fill));
  }
  CHECK(now(ImGuiCol_Button) == to_imgui(plain_button(theme).fill));
  CHECK(now(ImGuiCol_Text) == to_imgui(theme.palette.text));
}
