#include "views/figure/cell_runs.h"

#include <algorithm>
#include <cmath>

namespace kvscope::views {

std::vector<CellRun> cell_runs(const Image& image) {
  std::vector<CellRun> runs;
  const auto at = [&](int r, int c) -> const Colour& {
    return image.pixels[static_cast<std::size_t>(r) * image.columns + c];
  };
  const auto painted = [&](int r, int c) { return r < image.rows && c < image.columns && at(r, c).a != 0; };
  for (int r = 0; r < image.rows; ++r) {
    for (int c = 0; c < image.columns;) {
      int end = c + 1;
      while (end < image.columns && at(r, end) == at(r, c)) ++end;
      if (at(r, c).a != 0) {
        bool below = true;
        for (int i = c; i < end; ++i) below = below && painted(r + 1, i);
        runs.push_back({r, c, end - c, at(r, c), painted(r, end), below, painted(r + 1, end)});
      }
      c = end;
    }
  }
  return runs;
}

std::vector<Box> boxes_of(const CellRun& run, const Image& image) {
  const double w = image.box.w / image.columns, h = image.box.h / image.rows;
  const double x = image.box.x + run.column * w, y = image.box.y + run.row * h;
  const double wide = (run.n + (run.right ? 0.5 : 0)) * w, high = (run.below ? 1.5 : 1) * h;
  if (!run.right || !run.below || run.corner) return {{x, y, wide, high}};
  return {{x, y, wide, h}, {x, y, run.n * w, high}};
}

std::pair<int, int> magnification(const Image& image, double dpi) {
  const auto factor = [dpi](double points, int cells) {
    const int wanted = static_cast<int>(std::ceil(points / 72 * dpi / std::max(cells, 1)));
    return std::clamp(wanted, 1, std::max(1, 32000 / std::max(cells, 1)));  // Cairo's images end at 32767 pixels
  };
  return {factor(image.box.w, image.columns), factor(image.box.h, image.rows)};
}

Image magnify(const Image& image, std::pair<int, int> factor) {
  const auto [fx, fy] = factor;
  Image large{image.box, image.columns * fx, image.rows * fy, {}};
  large.pixels.reserve(static_cast<std::size_t>(large.columns) * large.rows);
  for (int r = 0; r < large.rows; ++r) {
    for (int c = 0; c < large.columns; ++c) {
      large.pixels.push_back(image.pixels[static_cast<std::size_t>(r / fy) * image.columns + c / fx]);
    }
  }
  return large;
}

}  // namespace kvscope::views
