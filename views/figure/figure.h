#pragma once
// The one figure model. Every view draws from it, every export renders it: what the window shows is what the paper
// gets.
//
// Lengths are points (1/72 inch), the origin is the top left corner, y grows downwards. A figure is a flat list of
// primitives painted in order; nothing in it knows a renderer.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvscope::views {

struct Colour {
  std::uint8_t r = 0, g = 0, b = 0, a = 255;
  bool operator==(const Colour&) const = default;
};
constexpr Colour with_alpha(Colour c, std::uint8_t a) { return {c.r, c.g, c.b, a}; }

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, w = 0, h = 0;
  double right() const { return x + w; }
  double bottom() const { return y + h; }
  Point centre() const { return {x + w / 2, y + h / 2}; }
  bool contains(Point p) const { return p.x >= x && p.x < right() && p.y >= y && p.y < bottom(); }
  Box inset(double d) const { return {x + d, y + d, w - 2 * d, h - 2 * d}; }
};

enum class FontRole : std::uint8_t { text, bold, mono };
enum class Anchor : std::uint8_t { start, middle, end };         // along the writing direction
enum class Baseline : std::uint8_t { alphabetic, middle, top };  // across it; middle is half the cap height

struct FillBox {
  Box box;
  Colour colour;
  double radius = 0;
};
/// The line lies centred on the edge. dash 0 is solid, otherwise the length of dash and gap.
struct StrokeBox {
  Box box;
  Colour colour;
  double width = 0.5;
  double radius = 0;
  double dash = 0;
};
struct Polyline {
  std::vector<Point> points;
  Colour colour;
  double width = 0.5;
  double dash = 0;
};
/// An area between two curves over the same abscissae: the first half of the points from left to right, the second half
/// back from right to left.
struct Polygon {
  std::vector<Point> points;
  Colour colour;
};
struct Text {
  std::string utf8;
  Point at;
  FontRole role = FontRole::text;
  double size = 9;
  Colour colour;
  Anchor anchor = Anchor::start;
  Baseline baseline = Baseline::alphabetic;
  double angle = 0;  // degrees, counter-clockwise around `at`
};
/// Cells of a heat map, one colour each, row-major, row 0 on top. Never interpolated. Cells with alpha 0 are not
/// painted.
struct Image {
  Box box;
  int columns = 0, rows = 0;
  std::vector<Colour> pixels;  // [rows * columns]
};
/// Diagonal lines: "no value here" (NaN, undecided).
struct Hatch {
  Box box;
  Colour colour;
  double spacing = 3, width = 0.4;
};

using Primitive = std::variant<FillBox, StrokeBox, Polyline, Polygon, Text, Image, Hatch>;

/// The data area of one set of axes, so that a view knows what is under the mouse. columns x rows of cells, or 0 x 0 if
/// the axes are continuous.
struct Panel {
  std::string id;  // "map", "map.b", "strip", "occupancy"
  Box box;
  int columns = 0, rows = 0;
  /// (row, column) under the point; nothing outside or without cells.
  std::optional<std::pair<int, int>> cell_at(Point p) const;
  Box cell(int row, int column) const;
};

struct Figure {
  double width = 0, height = 0;
  Colour background{255, 255, 255, 255};
  std::string title;  // for the document's metadata; not drawn
  std::vector<Primitive> items;
  std::vector<Panel> panels;
  const Panel* panel(std::string_view id) const;
};

/// The numbers of a figure, tidy: one row per mark. Every column has the same length.
struct FigureColumn {
  std::string name;
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::string>> values;
  std::size_t size() const;
};
/// A field of CSV (RFC 4180): quoted where it has a comma, a quote or a line end.
std::string csv_text(const std::string& v);

struct FigureData {
  std::vector<FigureColumn> columns;
  std::size_t n_rows() const { return columns.empty() ? 0 : columns.front().size(); }
  /// RFC 4180, '\n' line ends, NaN as an empty field, %.9g.
  std::string to_csv() const;
};

/// A figure, its numbers, and what a caption must say: model, policy, n, query position, definition, aggregation.
struct BuiltFigure {
  Figure figure;
  FigureData data;
  std::string caption;
};

}  // namespace kvscope::views
