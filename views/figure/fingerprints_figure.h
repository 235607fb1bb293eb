#pragma once
// What each head of a run keeps, as a grid of small profiles, and beside it one head in several runs.

#include <span>

#include "views/figure/figure_style.h"
#include "views/figure/fingerprints.h"

namespace kvscope::views {

/// Panels: "grid" (heads of the first run, fingerprint_grid()) and, where there is room, "head" (a cell for each bin). Data, a row
/// for each bin of each head of the first run and of the one head of the others, and before these one of all bins: run, layer,
/// kv_head, cluster, profile, bin ("all", "64-127"), kept, pairs, share (empty without a pair).
/// Throws Error (bad input): no run or more than kMostFingerprintRuns, an empty one, runs of other shapes, a head that they do
/// not have.
BuiltFigure fingerprints_figure(std::span<const RunRecord* const> runs, const FingerprintOptions& options,
                                const FigureStyle& style);
/// The same where the numbers are there: of each run, in the same order.
BuiltFigure fingerprints_figure(std::span<const RunRecord* const> runs, std::span<const RunFingerprints* const> prints,
                                const FingerprintOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
