#pragma once
// What figures of studies share: axes, linear and logarithmic, marks that differ in shape as well as in colour, a legend of
// them, and a grid of panels of one size.

#include <span>
#include <string>
#include <vector>

#include "views/figure/figure_builder.h"

namespace kvscope::views {

/// One axis, in the data's numbers.
struct PlotAxis {
  double lo = 0, hi = 1;
  bool log = false;
  double divisor = 1;        // of the labels alone
  bool powers_of_2 = false;  // ticks at lengths such as 1024 and 2048
  /// 0 at lo, 1 at hi.
  double share(double v) const;
};
/// Over the values, NaN left out, with a little air; a logarithmic axis over those above 0 (without any, it is linear).
/// `zero`: the axis begins or ends at 0 where it does not reach over it.
PlotAxis fit_plot_axis(const std::vector<double>& values, bool log, bool zero);
struct PlotTick {
  double value;
  std::string label;
};
std::vector<PlotTick> plot_ticks(const PlotAxis& axis, int target);

struct PlotBox {
  Box box;
  PlotAxis x, y;
  Point at(double vx, double vy) const { return {box.x + x.share(vx) * box.w, box.bottom() - y.share(vy) * box.h}; }
};
/// Grid lines, ticks and labels; an empty label is not written.
void draw_plot_axes(FigureBuilder& b, const PlotBox& plot, const std::string& x_label, const std::string& y_label,
                    bool x_numbers = true, double ticks = 0);

/// How a series looks: Okabe and Ito's colours, and so that a grey print tells them apart, its own mark and dash.
enum class PlotMark : std::uint8_t { circle, square, triangle, diamond, ring, frame };
struct SeriesLook {
  Colour colour;
  PlotMark mark;
  double dash;  // 0: solid
};
SeriesLook series_look(std::size_t i, bool dark);
void draw_mark(FigureBuilder& b, PlotMark mark, Point at, double size, Colour colour);
/// The part of an area with a straight upper and lower edge: a bar's pattern in grey print. `i` as of series_look().
void draw_bar(FigureBuilder& b, Box box, std::size_t i);
/// From low to high with caps; nothing if either is NaN.
void draw_whisker(FigureBuilder& b, double x, double low, double high, Colour colour, double cap);

struct PlotLegendEntry {
  enum class Kind : std::uint8_t { series, bar, band, line, front, star } kind = Kind::series;
  std::string label;
  std::size_t i = 0;  // of series_look()
  double dash = 0;    // of a line
};
/// Entries in lines that wrap at `width`; returns the height. A dry run draws nothing.
double draw_plot_legend(FigureBuilder& b, Point at, double width, const std::vector<PlotLegendEntry>& entries,
                        bool dry_run = false);
/// Of a Pareto front: broad and grey, as lines go over it.
inline constexpr double kFrontWidth = 2.2;
Colour front_colour(const FigureStyle& style);
/// A five-pointed star: the knee.
void draw_star(FigureBuilder& b, Point at, double radius, Colour colour);

/// Boxes of `n` panels in `columns` columns (0: as many as leave each 110 pt) with room for ticks and labels.
struct PanelGrid {
  int columns = 1, rows = 1;
  double height = 0;  // of the figure
  std::vector<Box> boxes;
  double ticks = 0;  // room for the numbers at the left of each, as draw_plot_axes() wants to know it
};
/// `top`: what the legend needs; `y_labels`: each panel has a label of its own at the left; `titles`: over each panel; `y`: axes
/// whose numbers may be wider than usual (3.1505).
PanelGrid panel_grid(const FigureStyle& style, int n, int columns, double top, bool y_labels, bool titles,
                     double bottom, std::span<const PlotAxis> y = {});
/// Room below a panel for ticks and the label of x.
double plot_bottom(const FigureStyle& style);

}  // namespace kvscope::views
