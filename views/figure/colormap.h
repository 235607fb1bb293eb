#pragma once
// Colour maps and scales. Sequential maps are the published viridis and cividis tables; cividis looks nearly the same
// with and without red-green colour blindness. Differences use blue - white - orange, centred on 0.

#include <cstdint>
#include <string>
#include <string_view>

#include "views/figure/figure.h"

namespace kvscope::views {

enum class Colormap : std::uint8_t { viridis, cividis, diverging, grey };

std::string_view to_string(Colormap map);
/// Throws Error (usage) that lists the names.
Colormap parse_colormap(std::string_view name);

/// The colour at x in [0, 1] (clamped). NaN gives a transparent colour: the caller hatches it.
Colour sample(Colormap map, double x);

/// From a value to a colour. steps > 0 makes it discrete: `steps` equal classes whose centres are lo ... hi (for
/// counts: lo = 0, hi = H, steps = H + 1).
struct ColourScale {
  Colormap map = Colormap::viridis;
  double lo = 0, hi = 1;
  int steps = 0;
  std::string label;  // quantity and unit: "KV heads retaining (of 8)"
  Colour operator()(double value) const;
};

/// Black or white, whichever reads better on `background` (WCAG relative luminance).
Colour ink_on(Colour background);
/// WCAG contrast ratio, 1 ... 21.
double contrast(Colour a, Colour b);
/// Linear mix in sRGB, t = 0 gives a.
Colour mix(Colour a, Colour b, double t);

}  // namespace kvscope::views
