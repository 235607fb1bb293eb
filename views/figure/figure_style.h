#pragma once
// Sizes, inks and fonts' sizes of a figure: a journal's column or a pane of the window.

#include <span>
#include <string_view>

#include "views/figure/figure.h"

namespace kvscope::views {

struct FigureStyle {
  double width = 396;  // pt; 5.5 in
  double height = 0;   // pt; 0: as the content wants it
  double label_size = 9;
  double tick_size = 7;
  bool dark = false;
  Colour paper{255, 255, 255, 255};
  Colour ink{26, 26, 26, 255};
  Colour muted{110, 110, 110, 255};  // tick labels, notes
  Colour rule{120, 120, 120, 255};   // frames and ticks
  double rule_width = 0.5;
  bool operator==(const FigureStyle&) const = default;
};

/// Text widths of a venue's style file, in points.
struct Venue {
  std::string_view name;   // "icml": in commands and recipes
  std::string_view title;  // "ICML": for people
  double column, full;     // pt
  double label_size, tick_size;
};
std::span<const Venue> venues();
/// Style of "neurips" or "icml:column", "icml:full"; the venue alone is its column. Throws Error (usage) that lists
/// what exists.
FigureStyle venue_style(std::string_view name);

inline constexpr double kPointsPerMm = 72.0 / 25.4;

}  // namespace kvscope::views
