#pragma once
// Runs as dots: what came of each against what its cache cost, as "NLL of the answer against cache size". Beside the picture
// its numbers: one row a run, with every measure.

#include <span>
#include <string>
#include <vector>

#include "engine/core/study/measure/run_measures.h"
#include "views/figure/drawn_study.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct RunPointsOptions {
  RunMeasure x = RunMeasure::cache_size, y = RunMeasure::nll_answer;
  std::vector<std::string> names;  // of the runs, in their order; empty: each by its policy
  std::vector<int> drawn;          // runs that have a dot, counted from 0; empty: all
  bool operator==(const RunPointsOptions&) const = default;
};

/// A run as its row has it.
struct MeasuredRun {
  std::string name, policy, method;
  RunMeasures measures;
};
MeasuredRun measured_run(const RunRecord& run, const RunMeasures& measures, const std::string& name = "");

/// Panel: "panel.0" (continuous); DrawnPoint::point.row is the number of the run. Data: run, policy, method, drawn, and a column for each
/// measure; rows in the order of the runs, also of those without a dot. Throws Error (bad input): no dot has both values, `names`
/// of another number of runs, `drawn` without such a run.
DrawnStudy draw_run_points(std::span<const MeasuredRun> runs, const RunPointsOptions& options,
                           const FigureStyle& style);
BuiltFigure run_points_figure(std::span<const RunRecord* const> runs, const RunPointsOptions& options,
                              const FigureStyle& style);

}  // namespace kvscope::views
