#pragma once
// Each head of a run as a small cell: its kept shares as a stepped area from 0 at the bottom to 1 at the top, in its cluster's
// colour.

#include "views/figure/figure_builder.h"
#include "views/figure/fingerprints.h"

namespace kvscope::views {

/// Cells that are smaller have their cluster's colour alone.
inline constexpr double kLeastSparkWidth = 8, kLeastSparkHeight = 3;  // points

/// The area in which a cell's shares are drawn.
Box spark_box(const Box& cell);
/// All cells, and panel "grid" with its axes. bins: fingerprint_bins().
void draw_fingerprint_cells(FigureBuilder& b, const RunFingerprints& prints, const FingerprintOptions& options,
                            TokenSpan bins, const Box& box);

}  // namespace kvscope::views
