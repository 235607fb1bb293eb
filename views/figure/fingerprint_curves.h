#pragma once
// One head in several runs: its kept shares bin by bin, a line with marks for each run.

#include <span>

#include "views/figure/figure_builder.h"
#include "views/figure/fingerprints.h"

namespace kvscope::views {

/// bins: fingerprint_bins(). Axes, lines, panel "head" (a cell for each bin). Kinds have marks without lines: they have no order.
void draw_fingerprint_curves(FigureBuilder& b, std::span<const RunFingerprints* const> prints,
                             const FingerprintOptions& options, TokenSpan bins, const Box& box);
/// What its numbers take at the left of the box, and its ticks and label below it.
double fingerprint_curves_left(const FigureStyle& style);

}  // namespace kvscope::views
