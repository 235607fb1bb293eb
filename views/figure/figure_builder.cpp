#include "views/figure/figure_builder.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "engine/core/support/minus.h"
#include "views/figure/fonts.h"
#include "views/figure/wrap_label.h"

namespace kvscope::views {

std::string format_number(double v, int significant) {
  if (std::isnan(v)) return "–";
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", significant, v == 0 ? 0.0 : v);
  return with_minus(text);
}

std::vector<double> nice_values(double lo, double hi, int target, bool whole) {
  if (!(hi > lo)) return {lo};
  const double raw = (hi - lo) / std::max(target, 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (double m : {1.0, 2.0, 5.0}) {
    if (m * power >= raw * 0.999) {
      step = m * power;
      break;
    }
  }
  if (whole) step = std::max(1.0, std::round(step));
  std::vector<double> values;
  const double slack = step * 1e-9;
  for (double k = std::ceil((lo - slack) / step); k * step <= hi + slack; ++k) values.push_back(k * step);
  return values;
}

int tick_stride(int n, double pitch, double need) {
  for (int magnitude = 1; magnitude < n; magnitude *= 10) {
    for (int m : {1, 2, 4, 5, 8}) {
      if (magnitude > 1 && (m == 4 || m == 8)) continue;  // 4 and 8 suit heads and layers, not hundreds
      if (pitch * m * magnitude >= need) return m * magnitude;
    }
  }
  return std::max(n, 1);
}

Colour preview_colour(bool dark) { return dark ? Colour{240, 170, 80, 255} : Colour{176, 92, 0, 255}; }

FigureBuilder::FigureBuilder(double width, double height, const FigureStyle& style) : style_(style) {
  figure_.width = width;
  figure_.height = height;
  figure_.background = style.paper;
}

void FigureBuilder::line(Point a, Point b, Colour colour, double width, double dash) {
  add(Polyline{{a, b}, colour, width, dash});
}

void FigureBuilder::text(std::string utf8, Point at, double size, Colour colour, Anchor anchor, Baseline baseline,
                         double angle, FontRole role) {
  add(Text{std::move(utf8), at, role, size, colour, anchor, baseline, angle});
}

void FigureBuilder::label(std::string utf8, Point at, Anchor anchor, double angle) {
  text(std::move(utf8), at, style_.label_size, style_.ink, anchor, Baseline::middle, angle);
}

void FigureBuilder::frame(Box box) { add(StrokeBox{box, style_.rule, style_.rule_width}); }

namespace {

/// The cells of alpha 0 as few rectangles: runs of a row, joined with the same run of the rows above.
std::vector<Box> absent_cells(const Panel& panel, const std::vector<Colour>& pixels) {
  std::vector<Box> boxes;
  std::map<std::pair<int, int>, std::size_t> open, next;  // columns of a run -> its box
  for (int r = 0; r < panel.rows; ++r, open = std::move(next), next.clear()) {
    for (int c = 0; c < panel.columns;) {
      int end = c;
      while (end < panel.columns && pixels[static_cast<std::size_t>(r) * panel.columns + end].a == 0) ++end;
      if (end > c) {
        Box run = panel.cell(r, c);
        run.w *= end - c;
        if (const auto above = open.find({c, end}); above != open.end()) {
          boxes[above->second].h += run.h;
          next[{c, end}] = above->second;
        } else {
          next[{c, end}] = boxes.size();
          boxes.push_back(run);
        }
      }
      c = std::max(end, c + 1);
    }
  }
  return boxes;
}

}  // namespace

void FigureBuilder::heat_map(const std::string& panel_id, Box box, int columns, int rows, std::vector<Colour> pixels) {
  const Panel panel{panel_id, box, columns, rows};
  for (const Box& absent : absent_cells(panel, pixels))
    add(Hatch{absent, mix(style_.paper, style_.muted, 0.55), 3, 0.4});
  add(Image{box, columns, rows, std::move(pixels)});
  frame(box);
  figure_.panels.push_back(panel);
}

void FigureBuilder::x_ticks(Box box, const std::vector<Tick>& ticks) {
  for (const Tick& tick : ticks) {
    line({tick.at, box.bottom()}, {tick.at, box.bottom() + kTickLength}, style_.rule, style_.rule_width);
    text(tick.label, {tick.at, box.bottom() + kTickLength + 2}, style_.tick_size, style_.muted, Anchor::middle,
         Baseline::top);
  }
}

void FigureBuilder::y_ticks(Box box, const std::vector<Tick>& ticks) {
  for (const Tick& tick : ticks) {
    line({box.x - kTickLength, tick.at}, {box.x, tick.at}, style_.rule, style_.rule_width);
    text(tick.label, {box.x - kTickLength - 2, tick.at}, style_.tick_size, style_.muted, Anchor::end, Baseline::middle);
  }
}

std::vector<std::pair<double, std::string>> FigureBuilder::bar_ticks(const ColourScale& scale, double height) const {
  std::vector<std::pair<double, std::string>> ticks;  // fraction of the bar from the bottom
  if (scale.steps > 1) {
    const int stride = tick_stride(scale.steps, height / scale.steps, style_.tick_size * 1.3);
    for (int k = 0; k < scale.steps; k += stride) {
      const double v = scale.lo + k * (scale.hi - scale.lo) / (scale.steps - 1);
      ticks.emplace_back((k + 0.5) / scale.steps, format_number(v));
    }
    return ticks;
  }
  const int target = std::clamp(static_cast<int>(height / (style_.tick_size * 3.2)), 2, 5);
  std::vector<double> values = nice_values(scale.lo, scale.hi, target);
  for (int more = target + 1; values.size() < 3 && more <= 8; ++more) values = nice_values(scale.lo, scale.hi, more);
  for (double v : values) {
    ticks.emplace_back((v - scale.lo) / (scale.hi - scale.lo), format_number(v));
  }
  return ticks;
}

double FigureBuilder::colour_bar_width(const ColourScale& scale, double height) const {
  double widest = 0;
  for (const auto& [at, label] : bar_ticks(scale, height))
    widest = std::max(widest, text_width(label, FontRole::text, style_.tick_size));
  return style_.tick_size + kTickLength + 2 + widest + (scale.label.empty() ? 1 : 4 + style_.label_size);
}

void FigureBuilder::colour_bar(Box bar, const ColourScale& scale, const std::function<Colour(double)>& colour) {
  bar.w = style_.tick_size;
  const int n = scale.steps > 1 ? scale.steps : 128;
  std::vector<Colour> pixels;
  for (int i = 0; i < n; ++i) {
    const double f = scale.steps > 1 ? (n - 1.0 - i) / (n - 1) : (n - 0.5 - i) / n;
    const double v = scale.lo + f * (scale.hi - scale.lo);
    pixels.push_back(colour ? colour(v) : scale(v));
  }
  add(Image{bar, 1, n, std::move(pixels)});
  frame(bar);
  double widest = 0;
  for (const auto& [at, tick] : bar_ticks(scale, bar.h)) {
    const double y = bar.bottom() - at * bar.h;
    line({bar.right(), y}, {bar.right() + kTickLength, y}, style_.rule, style_.rule_width);
    text(tick, {bar.right() + kTickLength + 2, y}, style_.tick_size, style_.muted, Anchor::start, Baseline::middle);
    widest = std::max(widest, text_width(tick, FontRole::text, style_.tick_size));
  }
  if (!scale.label.empty()) {
    const double x = bar.right() + kTickLength + 2 + widest + 4 + style_.label_size / 2;
    label(scale.label, {x, bar.centre().y}, Anchor::middle, 90);
  }
}

std::vector<std::string> wrap_label(const std::string& label, double width, double size) {
  std::vector<std::string> lines = {""};
  for (std::size_t at = 0; at < label.size();) {
    const std::size_t stop = label.find_first_of(" ,", at);
    const std::size_t end = stop == std::string::npos ? label.size() : stop + 1;
    const std::string word = label.substr(at, end - at);
    const std::string longer = lines.back() + (word.ends_with(' ') ? word.substr(0, word.size() - 1) : word);
    if (!lines.back().empty() && text_width(longer, FontRole::text, size) > width) lines.emplace_back();
    lines.back() += word;
    at = end;
  }
  return lines;
}

double FigureBuilder::legend(Point at, double width, const std::vector<LegendEntry>& entries, bool dry_run) {
  const double size = style_.tick_size, row = size * 1.6, swatch = size * 1.5, gap = size * 1.6;
  double x = at.x, y = at.y;
  for (const LegendEntry& entry : entries) {
    const double needed = swatch + size * 0.5 + text_width(entry.label, FontRole::text, size);
    if (x > at.x && x + needed > at.x + width) x = at.x, y += row;
    const std::vector<std::string> lines = wrap_label(entry.label, width - swatch - size * 0.5, size);
    if (!dry_run) {
      const Box box{x, y + (row - size) / 2, swatch, size};
      const double middle = box.centre().y;
      if (entry.mark != LegendEntry::Mark::swatch) {
        const double dash = entry.mark == LegendEntry::Mark::line ? 2 : 0;
        line({box.x, middle}, {box.right(), middle}, entry.colour, 1, dash);
      } else {
        add(FillBox{box, entry.colour});
        add(StrokeBox{box, with_alpha(style_.rule, 150), style_.rule_width * 0.8});
      }
      for (std::size_t i = 0; i < lines.size(); ++i)
        text(lines[i], {box.right() + size * 0.5, middle + row * static_cast<double>(i)}, size, style_.ink,
             Anchor::start, Baseline::middle);
    }
    x += needed + gap;
    y += row * static_cast<double>(lines.size() - 1);
  }
  return y + row - at.y;
}

void FigureBuilder::preview_frame(Box box) { add(StrokeBox{box.inset(-2), preview_colour(style_.dark), 0.9, 0, 3}); }

void FigureBuilder::preview_badge(double right, double bottom) {
  const Colour colour = preview_colour(style_.dark);
  const double size = style_.tick_size, h = size * 1.5;
  const std::string badge(kPreviewBadge);
  const double w = text_width(badge, FontRole::bold, size) + size;
  const Box pill{std::max(right - w, 0.0), bottom - h, w, h};  // a narrow panel is at the edge
  add(FillBox{pill, colour, h / 2});
  text(badge, pill.centre(), size, ink_on(colour), Anchor::middle, Baseline::middle, 0, FontRole::bold);
}

}  // namespace kvscope::views
