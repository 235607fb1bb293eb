#include "views/figure/head_map_panel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/core/support/minus.h"
#include "views/figure/fonts.h"

namespace kvscope::views {
namespace {

std::string cell_text(float v) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", std::abs(v) < 0.005f ? 0.f : v);
  return with_minus(text);
}

/// The map by rows and places, as it lies on paper.
struct Cells {
  const HeadMap& map;
  const HeadMapLook& look;

  int layer(int row) const { return look.layer_zero_on_top ? row : map.n_layers - 1 - row; }
  int head(int row, int place) const {
    if (look.order == nullptr) return place;
    return (*look.order)[static_cast<std::size_t>(layer(row)) * static_cast<std::size_t>(map.n_kv_heads) +
                         static_cast<std::size_t>(place)];
  }
  float value(int row, int place) const { return map.at(layer(row), head(row, place)); }
  bool marked(int row, int place) const {
    return look.marked != nullptr && row >= 0 && row < map.n_layers && place >= 0 && place < map.n_kv_heads &&
           look.marked->contains({layer(row), head(row, place)});
  }
};

void draw_cell_values(FigureBuilder& b, const Panel& panel, const Cells& cells, const std::vector<Colour>& pixels) {
  const double size = std::min(b.style().tick_size, panel.box.h / panel.rows * 0.62);
  const double widest = text_width("−0.00", FontRole::text, size);
  // Far below the size of the ticks they are dust, not numbers: the card under the pointer has them.
  if (size < std::max(4.5, 0.6 * b.style().tick_size) || widest + 3 > panel.box.w / panel.columns) return;
  for (int r = 0; r < panel.rows; ++r) {
    for (int h = 0; h < panel.columns; ++h) {
      const float v = cells.value(r, h);
      const Colour under =
          pixels[static_cast<std::size_t>(r) * static_cast<std::size_t>(panel.columns) + static_cast<std::size_t>(h)];
      if (std::isnan(v)) continue;
      b.text(cell_text(v), panel.cell(r, h).centre(), size, ink_on(under), Anchor::middle, Baseline::middle);
    }
  }
}

/// Local heads of a board: neighbours in a row as one hatched rectangle.
void hatch_unmarked(FigureBuilder& b, const Panel& panel, const Cells& cells) {
  for (int r = 0; r < panel.rows; ++r) {
    for (int c = 0; c < panel.columns; ++c) {
      const int from = c;
      while (c < panel.columns && !cells.marked(r, c)) ++c;
      if (c == from) continue;
      Box run = panel.cell(r, from);
      run.w *= c - from;
      b.add(Hatch{run, mix(b.style().paper, b.style().muted, 0.7), 4, 0.5});
    }
  }
}

/// Lines where a marked cell meets one that is not, as few as there can be: light under dark stands out on every colour.
void outline_marked(FigureBuilder& b, const Panel& panel, const Cells& cells) {
  std::vector<std::pair<Point, Point>> lines;
  const double cw = panel.box.w / panel.columns, ch = panel.box.h / panel.rows;
  const auto collect = [&](int n_lines, int n_cells, const auto& differs, const auto& point) {
    for (int i = 0; i <= n_lines; ++i) {
      for (int j = 0; j < n_cells; ++j) {
        const int from = j;
        while (j < n_cells && differs(i, j)) ++j;
        if (j > from) lines.emplace_back(point(i, from), point(i, j));
      }
    }
  };
  collect(
      panel.rows, panel.columns, [&](int r, int c) { return cells.marked(r - 1, c) != cells.marked(r, c); },
      [&](int r, int c) {
        return Point{panel.box.x + c * cw, panel.box.y + r * ch};
      });
  collect(
      panel.columns, panel.rows, [&](int c, int r) { return cells.marked(r, c - 1) != cells.marked(r, c); },
      [&](int c, int r) {
        return Point{panel.box.x + c * cw, panel.box.y + r * ch};
      });
  for (const auto& [from, to] : lines) b.line(from, to, b.style().paper, 2.6);
  for (const auto& [from, to] : lines) b.line(from, to, b.style().ink, 1.2);
}

void draw_axes(FigureBuilder& b, const Box& box, const HeadMap& map, const HeadMapLook& look) {
  const FigureStyle& s = b.style();
  std::vector<Tick> x, y;
  const double cw = box.w / map.n_kv_heads, ch = box.h / map.n_layers;
  const int x_stride = tick_stride(map.n_kv_heads, cw, text_width("00", FontRole::text, s.tick_size) + 3);
  const int y_stride = tick_stride(map.n_layers, ch, s.tick_size * 1.25);
  const int first = look.order != nullptr ? 1 : 0;  // places are counted from one, heads are not
  for (int h = 0; h < map.n_kv_heads; h += x_stride) x.push_back({box.x + (h + 0.5) * cw, std::to_string(h + first)});
  for (int l = 0; l < map.n_layers; l += y_stride) {
    y.push_back({box.y + ((look.layer_zero_on_top ? l : map.n_layers - 1 - l) + 0.5) * ch, std::to_string(l)});
  }
  b.x_ticks(box, x);
  if (look.layer_numbers) b.y_ticks(box, y);
  const std::string title(head_axis_title(s, look.order != nullptr, box.w, look.title_room));
  if (title.empty()) return;
  b.label(title,
          {box.centre().x, box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6});
}

}  // namespace

std::string_view hatch_note(std::span<const HeadMap> maps) {
  const auto has_none = [](const HeadMap& map) {
    return std::ranges::any_of(map.values, [](float v) { return std::isnan(v); });
  };
  return std::ranges::any_of(maps, has_none) ? " Hatched: no value." : "";
}

std::string_view head_axis_title(const FigureStyle& s, bool sorted, double box_width, double room) {
  const auto width = [&](std::string_view title) { return text_width(title, FontRole::text, s.label_size); };
  constexpr std::string_view kLong = "KV heads by value";
  if (sorted && width(kLong) < std::min(box_width + s.label_size, room)) return kLong;
  const std::string_view title = sorted ? "by value" : "KV head";
  return width(title) <= room ? title : std::string_view();
}

void draw_head_map(FigureBuilder& b, const std::string& id, const Box& box, const HeadMap& map,
                   const ColourScale& scale, const HeadMapLook& look) {
  const Cells cells{map, look};
  std::vector<Colour> pixels;
  for (int r = 0; r < map.n_layers; ++r) {
    for (int h = 0; h < map.n_kv_heads; ++h) {
      pixels.push_back(scale(cells.value(r, h)));
      if (!look.board) continue;
      // A hatched cell of a board is a local head, so what has no value is not hatched there.
      if (pixels.back().a == 0) pixels.back() = mix(b.style().paper, b.style().muted, 0.35);
      if (!cells.marked(r, h)) pixels.back() = mix(b.style().paper, pixels.back(), 0.25);
    }
  }
  b.heat_map(id, box, map.n_kv_heads, map.n_layers, pixels);
  const Panel panel{id, box, map.n_kv_heads, map.n_layers};
  if (look.board) hatch_unmarked(b, panel, cells);
  if (look.values) draw_cell_values(b, panel, cells, pixels);
  if (look.marked != nullptr) outline_marked(b, panel, cells);
  draw_axes(b, box, map, look);
}

}  // namespace kvscope::views
