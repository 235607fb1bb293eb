#pragma once
// Heat maps as few rectangles, without seams, or as an image magnified enough that no viewer blurs it.

#include <vector>

#include "views/figure/figure.h"

namespace kvscope::views {

/// Cells of one row and one colour, side by side.
struct CellRun {
  int row, column, n;
  Colour colour;
  bool right, below;  // painted cells follow to the right / under every cell of the run
  bool corner;        // and one below that to the right
};

/// Runs row by row, left to right, without the cells of alpha 0. Painted in this order, each run may reach under its
/// right and lower neighbours (right, below): adjoining edges are antialiased against each other otherwise, which shows
/// as hairlines (a quarter of the pixels of a 36-row map were off colour).
std::vector<CellRun> cell_runs(const Image& image);

/// What such a run paints, of an image in `box`: as far as the middle of its neighbours, and nothing of a cell that is not
/// painted, the one at the corner neither.
std::vector<Box> boxes_of(const CellRun& run, const Image& image);

/// Above this an image is smaller and faster than vectors.
inline constexpr int kMaxVectorCells = 20000;
/// Integer factors (columns, rows) that magnify the image to at least `dpi` over its box; viewers that interpolate
/// images then only blur within a cell's edge.
std::pair<int, int> magnification(const Image& image, double dpi);
/// Each cell as factor.first x factor.second pixels.
Image magnify(const Image& image, std::pair<int, int> factor);

}  // namespace kvscope::views
