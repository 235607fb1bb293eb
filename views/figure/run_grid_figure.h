#pragma once
// Small multiples of runs: methods down, cache sizes across, all at one query and on one scale.

#include <span>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/colormap.h"
#include "views/figure/figure_style.h"
#include "views/figure/run_grid.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

struct RunGridOptions {
  RunGridCells cells = RunGridCells::heads;
  Metric metric = Metric::density;  // of heads
  std::int32_t q = -1;              // query position; -1: the last of each run
  RunMeasure measure = RunMeasure::nll_answer;
  Colormap colormap = Colormap::viridis;
  bool fit = false;                // the scale goes over the values; else 0 to 1 for shares
  std::vector<std::string> names;  // of the runs; empty: "run 1" ...
  bool operator==(const RunGridOptions&) const = default;
};

/// Panels: "run.0" ... of each run, in their order: rows are layers, columns KV heads, or tokens. A text that has more tokens than a picture has
/// points is averaged. Data, a row for each cell: run, policy, method, column (from 1), cache_size, the measure, layer, and kv_head
/// and value, or first_token, last_token and kv_heads.
/// Throws Error (bad input): no run or more than kMostGridRuns, and what why_not_in_grid() says.
BuiltFigure run_grid_figure(std::span<const RunRecord* const> runs, const RunGridOptions& options,
                            const FigureStyle& style);

/// The values of one small picture.
struct GridPicture {
  int rows = 0, columns = 0;
  std::vector<float> values;      // row by row; NaN is hatched
  std::vector<TokenSpan> tokens;  // of the columns, where they are tokens
};
/// What costs time: looks at the lifetimes of each run. `measures`: of each, in the same order; `width`: of the figure. Throws as above.
std::vector<GridPicture> grid_pictures(std::span<const RunRecord* const> runs, std::span<const RunMeasures> measures,
                                       const RunGridOptions& options, double width);
/// The same figure where measures and pictures are known.
BuiltFigure run_grid_figure(std::span<const RunRecord* const> runs, std::span<const RunMeasures> measures,
                            std::span<const GridPicture> pictures, const RunGridOptions& options,
                            const FigureStyle& style);

}  // namespace kvscope::views
