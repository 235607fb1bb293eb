#pragma once
// The layer above primitives: axes, ticks, colour bars, legends, the mark of a preview.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "views/figure/colormap.h"
#include "views/figure/figure.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct Tick {
  double at;  // in points along the axis, absolute
  std::string label;
};

/// "0.25", "1", "-3e-05": as many digits as mean something. A dash for NaN.
std::string format_number(double v, int significant = 3);
/// Round values in [lo, hi], about `target` of them (1, 2 or 5 times a power of ten apart; whole numbers if `whole`).
std::vector<double> nice_values(double lo, double hi, int target, bool whole = false);
/// Every how-many-th of `n` index labels fits, if a label needs `need` points and an index has `pitch`: 1, 2, 4, 5, 8,
/// 10 ...
int tick_stride(int n, double pitch, double need);

/// A line is dashed, a curve is not.
struct LegendEntry {
  enum class Mark { swatch, line, curve } mark = Mark::swatch;
  std::string label;
  Colour colour;
};

class FigureBuilder {
 public:
  FigureBuilder(double width, double height, const FigureStyle& style);

  Figure& figure() { return figure_; }
  const FigureStyle& style() const { return style_; }

  template <typename P>
  void add(P primitive) {
    figure_.items.emplace_back(std::move(primitive));
  }
  void line(Point a, Point b, Colour colour, double width, double dash = 0);
  void text(std::string utf8, Point at, double size, Colour colour, Anchor anchor = Anchor::start,
            Baseline baseline = Baseline::alphabetic, double angle = 0, FontRole role = FontRole::text);
  void label(std::string utf8, Point at, Anchor anchor = Anchor::middle, double angle = 0);  // an axis' name
  /// Cells of a heat map, those of alpha 0 hatched, and a frame around it; registers the panel.
  void heat_map(const std::string& panel_id, Box box, int columns, int rows, std::vector<Colour> pixels);
  void frame(Box box);

  /// Ticks below / left of the box, labels outside; ticks keep kTickLength from the frame.
  void x_ticks(Box box, const std::vector<Tick>& ticks);
  void y_ticks(Box box, const std::vector<Tick>& ticks);

  /// A vertical bar with ticks and a rotated label at the right; the width it needs is colour_bar_width() of its height, which
  /// its numbers follow from. `colour`, if given, is what the values of the scale have instead of its own colours.
  void colour_bar(Box bar, const ColourScale& scale, const std::function<Colour(double)>& colour = {});
  double colour_bar_width(const ColourScale& scale, double height = 100) const;

  /// Entries in a line that wraps at `width`; returns the height. A dry run draws nothing.
  double legend(Point at, double width, const std::vector<LegendEntry>& entries, bool dry_run = false);

  /// What was not measured never looks as if: a dashed frame just outside each panel, and one badge that ends at
  /// `right` and rests on `bottom`.
  void preview_frame(Box box);
  void preview_badge(double right, double bottom);
  double preview_height() const { return style_.tick_size * 1.5 + 5; }  // of the badge, frame's edge included

  static constexpr double kTickLength = 2.5;

 private:
  std::vector<std::pair<double, std::string>> bar_ticks(const ColourScale& scale, double height) const;
  FigureStyle style_;
  Figure figure_;
};

inline constexpr std::string_view kPreviewBadge = "preview, not measured";
Colour preview_colour(bool dark);

}  // namespace kvscope::views
