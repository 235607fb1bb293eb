#include "views/figure/plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/core/support/text.h"
#include "views/figure/fonts.h"
#include "views/figure/wrap_label.h"

namespace kvscope::views {
namespace {

bool is_power_of_2(double v) { return v >= 1 && std::exp2(std::round(std::log2(v))) == v; }

std::string tick_label(double v, const PlotAxis& axis) {
  v /= axis.divisor;
  if (axis.powers_of_2 && v >= 1024) return format_number(v / 1024) + "k";
  if (std::abs(v) >= 1000 && std::abs(v) < 1e6) return format_number(v, 6);
  if (std::abs(v) >= 1e10) {  // of FLOPs
    const double power = std::floor(std::log10(std::abs(v)) + 1e-9), of = v / std::pow(10, power);
    return format_number(of) + "e" + std::to_string(static_cast<int>(power));
  }
  if (std::abs(v) >= 1e9) return format_number(v / 1e9) + "G";
  if (std::abs(v) >= 1e6) return format_number(v / 1e6) + "M";
  return format_number(v);
}

/// Corners as the polygon wants them: along the upper edge, then back along the lower one.
void fill(FigureBuilder& b, std::vector<Point> upper, const std::vector<Point>& lower, Colour colour) {
  upper.insert(upper.end(), lower.rbegin(), lower.rend());
  b.add(Polygon{std::move(upper), colour});
}

void outline(FigureBuilder& b, std::vector<Point> points, Colour colour, double width) {
  points.push_back(points.front());
  b.add(Polyline{std::move(points), colour, width, 0});
}

constexpr double kPanelGap = 10, kLeastPanel = 110;

double label_room(const FigureStyle& s) { return s.label_size + 4; }
int n_y_ticks(const FigureStyle& s, double height) {
  return std::max(2, static_cast<int>(height / (s.tick_size * 2.5)));
}
double tick_room(const FigureStyle& s) {
  return text_width("−0.00", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
}

}  // namespace

double PlotAxis::share(double v) const {
  if (log) return (std::log(std::max(v, lo * 1e-3)) - std::log(lo)) / (std::log(hi) - std::log(lo));
  return (v - lo) / (hi - lo);
}

PlotAxis fit_plot_axis(const std::vector<double>& values, bool log, bool zero) {
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  bool powers = log;
  for (const double v : values) {
    if (std::isnan(v) || std::isinf(v) || (log && v <= 0)) continue;
    lo = std::min(lo, v), hi = std::max(hi, v);
    powers = powers && is_power_of_2(v) && v >= 2;
  }
  if (!(hi >= lo)) return {0, 1};
  if (log) {
    const double air = std::pow(hi > lo ? hi / lo : 4.0, 0.05);
    return {.lo = lo / air, .hi = hi * air, .log = true, .powers_of_2 = powers};
  }
  if (zero) lo = std::min(lo, 0.0), hi = std::max(hi, 0.0);
  if (zero && lo == 0 && hi == 0) hi = 1;  // nothing but zeros: they lie on the axis
  if (hi == lo) {
    const double half = lo == 0 ? 0.5 : std::abs(lo) * 0.1;
    lo -= half, hi += half;
  }
  const double air = 0.06 * (hi - lo);
  return {.lo = zero && lo == 0 ? lo : lo - air, .hi = zero && hi == 0 ? hi : hi + air};
}

std::vector<PlotTick> plot_ticks(const PlotAxis& axis, int target) {
  std::vector<double> values;
  const auto inside = [&](double v) { return v >= axis.lo * (1 - 1e-9) && v <= axis.hi * (1 + 1e-9); };
  if (!axis.log) {
    for (const double v : nice_values(axis.lo / axis.divisor, axis.hi / axis.divisor, target))
      values.push_back(v * axis.divisor);
  } else if (axis.powers_of_2) {
    for (double v = std::exp2(std::ceil(std::log2(axis.lo) - 1e-9)); inside(v); v *= 2) values.push_back(v);
    while (static_cast<int>(values.size()) > std::max(target, 2)) {
      std::vector<double> fewer;
      for (std::size_t i = (values.size() - 1) % 2; i < values.size(); i += 2) fewer.push_back(values[i]);
      values = fewer;
    }
  } else {
    const double lo = axis.lo / axis.divisor, hi = axis.hi / axis.divisor;
    const bool fine = hi / lo < 30;  // decades alone would leave one tick or none
    for (double power = std::pow(10, std::floor(std::log10(lo))); power <= hi; power *= 10) {
      for (const double m : {1.0, 2.0, 5.0}) {
        if ((m == 1 || fine) && inside(m * power * axis.divisor)) values.push_back(m * power * axis.divisor);
      }
    }
  }
  std::vector<PlotTick> ticks;
  for (const double v : values) ticks.push_back({v, tick_label(v, axis)});
  return ticks;
}

void draw_plot_axes(FigureBuilder& b, const PlotBox& plot, const std::string& x_label, const std::string& y_label,
                    bool x_numbers, double ticks) {
  const FigureStyle& s = b.style();
  const Box& box = plot.box;
  std::vector<Tick> x, y;
  for (const PlotTick& tick : plot_ticks(plot.y, n_y_ticks(s, box.h))) {
    const double at = plot.at(plot.x.lo, tick.value).y;
    const bool zero = tick.value == 0 && plot.y.lo < 0;
    b.line({box.x, at}, {box.right(), at}, mix(s.paper, s.rule, zero ? 0.8 : 0.25), s.rule_width * 0.8);
    y.push_back({at, tick.label});
  }
  if (x_numbers) {
    const auto n_x = std::max(2, static_cast<int>(box.w / (s.tick_size * 4.5)));
    for (const PlotTick& tick : plot_ticks(plot.x, n_x)) x.push_back({plot.at(tick.value, plot.y.lo).x, tick.label});
    b.x_ticks(box, x);
  }
  b.y_ticks(box, y);
  const double below = box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6;
  if (!x_label.empty()) b.label(x_label, {box.centre().x, below});
  if (y_label.empty()) return;
  // Much longer than its axis it would lie on the legend, or on what is above the figure.
  const double room = box.h + 3 * s.tick_size;
  b.label(shortened(y_label, FontRole::text, s.label_size, room),
          {box.x - std::max(ticks, tick_room(s)) - s.label_size / 2 - 1, box.centre().y}, Anchor::middle, 90);
}

SeriesLook series_look(std::size_t i, bool dark) {
  // In the order of lightness as far apart as can be; yellow is left out, which white paper swallows.
  constexpr std::array kLight = {Colour{0, 114, 178}, Colour{213, 94, 0},  Colour{0, 158, 115}, Colour{204, 121, 167},
                                 Colour{60, 60, 60},  Colour{230, 159, 0}, Colour{86, 180, 233}};
  constexpr std::array kDark = {Colour{86, 180, 233},  Colour{240, 158, 60},  Colour{60, 200, 155},
                                Colour{224, 150, 190}, Colour{220, 220, 220}, Colour{240, 228, 66},
                                Colour{70, 140, 210}};
  constexpr double kDashes[] = {0, 4, 2, 6, 1};
  const Colour colour = (dark ? kDark : kLight)[i % kLight.size()];
  return {colour, static_cast<PlotMark>(i % 6), kDashes[i % 5]};
}

void draw_mark(FigureBuilder& b, PlotMark mark, Point at, double size, Colour colour) {
  const double r = size / 2, d = r * 1.25;
  const std::vector<Point> left{{at.x - d, at.y}, {at.x, at.y - d}, {at.x + d, at.y}},
      low{{at.x - d, at.y}, {at.x, at.y + d}, {at.x + d, at.y}};
  switch (mark) {
    case PlotMark::circle:
      return b.add(FillBox{{at.x - r, at.y - r, size, size}, colour, r});
    case PlotMark::square:
      return b.add(FillBox{{at.x - r * 0.9, at.y - r * 0.9, size * 0.9, size * 0.9}, colour});
    case PlotMark::triangle:
      return fill(b, {{at.x - d, at.y + r}, {at.x, at.y - d}, {at.x + d, at.y + r}},
                  {{at.x - d, at.y + r}, {at.x, at.y + r}, {at.x + d, at.y + r}}, colour);
    case PlotMark::diamond:
      return fill(b, left, low, colour);
    case PlotMark::ring:
      b.add(FillBox{{at.x - r, at.y - r, size, size}, b.style().paper, r});
      return b.add(StrokeBox{{at.x - r, at.y - r, size, size}, colour, 0.9, r});
    case PlotMark::frame:
      b.add(FillBox{{at.x - r, at.y - r, size, size}, b.style().paper});
      return b.add(StrokeBox{{at.x - r, at.y - r, size, size}, colour, 0.9});
  }
}

void draw_star(FigureBuilder& b, Point at, double radius, Colour colour) {
  std::vector<Point> points;
  for (int i = 0; i < 10; ++i) {
    const double r = i % 2 ? radius * 0.45 : radius, angle = i * M_PI / 5;
    points.push_back({at.x + r * std::sin(angle), at.y - r * std::cos(angle)});
  }
  outline(b, points, colour, 0.9);
}

void draw_bar(FigureBuilder& b, Box box, std::size_t i) {
  const FigureStyle& s = b.style();
  const Colour colour = series_look(i, s.dark).colour;
  const bool pale = i % 2 == 1;
  b.add(FillBox{box, pale ? mix(s.paper, colour, 0.55) : colour});
  if (i % 3 == 2) b.add(Hatch{box, mix(colour, s.paper, 0.75), 3, 0.6});
  b.add(StrokeBox{box, mix(colour, s.ink, 0.35), 0.5});
}

void draw_whisker(FigureBuilder& b, double x, double low, double high, Colour colour, double cap) {
  if (std::isnan(low) || std::isnan(high)) return;
  b.line({x, low}, {x, high}, colour, 0.7);
  b.line({x - cap, low}, {x + cap, low}, colour, 0.7);
  b.line({x - cap, high}, {x + cap, high}, colour, 0.7);
}

double draw_plot_legend(FigureBuilder& b, Point at, double width, const std::vector<PlotLegendEntry>& entries,
                        bool dry_run) {
  const FigureStyle& s = b.style();
  const double size = s.tick_size, row = size * 1.6, key = size * 2.6, gap = size * 1.6;
  using Kind = PlotLegendEntry::Kind;
  double x = at.x, y = at.y;
  for (const PlotLegendEntry& entry : entries) {
    const double needed = key + size * 0.5 + text_width(entry.label, FontRole::text, size);
    if (x > at.x && x + needed > at.x + width) x = at.x, y += row;
    const std::vector<std::string> lines = wrap_label(entry.label, width - key - size * 0.5, size);
    if (!dry_run) {
      const double middle = y + row / 2;
      const SeriesLook look = series_look(entry.i, s.dark);
      const Point centre{x + key / 2, middle};
      if (entry.kind == Kind::series) {
        b.line({x, middle}, {x + key, middle}, look.colour, 1.1, look.dash);
        draw_mark(b, look.mark, centre, 3.6, look.colour);
      } else if (entry.kind == Kind::bar) {
        draw_bar(b, {x + key * 0.2, middle - size / 2, key * 0.6, size}, entry.i);
      } else if (entry.kind == Kind::band) {
        b.add(FillBox{{x, middle - size / 2, key, size}, with_alpha(s.muted, 60)});
      } else if (entry.kind == Kind::front) {
        b.line({x, middle}, {x + key, middle}, front_colour(s), kFrontWidth);
      } else if (entry.kind == Kind::star) {
        draw_star(b, centre, size * 0.55, s.ink);
      } else {
        b.line({x, middle}, {x + key, middle}, s.ink, 0.8, entry.dash);
      }
      for (std::size_t i = 0; i < lines.size(); ++i)
        b.text(lines[i], {x + key + size * 0.5, middle + row * static_cast<double>(i)}, size, s.ink, Anchor::start,
               Baseline::middle);
    }
    x += needed + gap;
    y += row * static_cast<double>(lines.size() - 1);
  }
  return entries.empty() ? 0 : y + row - at.y;
}

Colour front_colour(const FigureStyle& style) { return mix(style.paper, style.ink, 0.45); }

double plot_bottom(const FigureStyle& s) {
  return FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 1.3;
}

namespace {

PanelGrid grid_of(const FigureStyle& s, int n, int columns, double top, bool y_labels, bool titles, double bottom,
                  double ticks) {
  PanelGrid grid{.ticks = ticks};
  const double side = ticks + (y_labels ? label_room(s) : 0);
  const double first = ticks + label_room(s), right = s.tick_size;
  const auto fitting =
      static_cast<int>((s.width - first - right + side + kPanelGap) / (kLeastPanel + side + kPanelGap));
  grid.columns = std::clamp(columns > 0 ? columns : fitting, 1, n);
  if (columns <= 0 && grid.columns > 2 && n > grid.columns) {  // four as two and two rather than three and one
    const int rows = (n + grid.columns - 1) / grid.columns;
    grid.columns = (n + rows - 1) / rows;
  }
  grid.rows = (n + grid.columns - 1) / grid.columns;
  const double pitch = (s.width - first - right - (grid.columns - 1) * (side + kPanelGap)) / grid.columns;
  const double w = std::max(20.0, pitch), title = titles ? s.label_size * 1.4 : 2;
  const double h = s.height > 0 ? std::max(20.0, (s.height - top) / grid.rows - title - bottom)
                                : std::clamp(w * 0.66, 55.0, s.width * 0.42);
  for (int i = 0; i < n; ++i) {
    const int column = i % grid.columns, row = i / grid.columns;
    grid.boxes.push_back({first + column * (w + side + kPanelGap), top + row * (h + title + bottom) + title, w, h});
  }
  grid.height = top + grid.rows * (h + title + bottom);
  return grid;
}

}  // namespace

PanelGrid panel_grid(const FigureStyle& s, int n, int columns, double top, bool y_labels, bool titles, double bottom,
                     std::span<const PlotAxis> y) {
  PanelGrid grid = grid_of(s, n, columns, top, y_labels, titles, bottom, tick_room(s));
  double ticks = grid.ticks;
  for (const PlotAxis& axis : y) {
    for (const PlotTick& tick : plot_ticks(axis, n_y_ticks(s, grid.boxes[0].h)))
      ticks = std::max(ticks, text_width(tick.label, FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength);
  }
  return ticks > grid.ticks ? grid_of(s, n, columns, top, y_labels, titles, bottom, ticks) : grid;
}

}  // namespace kvscope::views
