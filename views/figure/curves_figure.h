#pragma once
// What a run is from position to position: NLL, tokens in the cache, density, recall, output error, as a line with the
// quartiles over heads as a band, and a second one of what the positions of a point range over; A and B together, or B - A.

#include <span>
#include <string>

#include "engine/core/study/measure/run_curve.h"
#include "views/figure/figure_style.h"
#include "views/figure/head_set.h"
#include "views/figure/layer_head_map_figure.h"

namespace kvscope::views {

struct CurvesOptions {
  RunQuantity quantity = RunQuantity::nll;
  int points = 96;                        // at most; each is the mean of its positions
  MapCompare compare = MapCompare::none;  // exactly two runs: both lines, or B - A
  bool band = true;                       // the quartiles over heads, and the range of what a point is the mean of
  bool preview = false, preview_b = false;
  std::string name_a = "A", name_b = "B";
  HeadSet heads;             // that count; empty: all
  int first = 0, count = 0;  // positions shown; count 0: all
  bool operator==(const CurvesOptions&) const = default;
};
inline constexpr int kMaxCurvePoints = 4096;

/// Positions that the whole axis goes over: of two lines those of the longer run, of a difference those in common. b: null
/// where nothing is compared.
int curve_positions(const RunRecord& a, const RunRecord* b, MapCompare compare);

/// "4 or 5 positions", of which each of at most `points` points is the mean where n positions are shown; empty where each
/// position has a point.
std::string positions_of_a_point(int n, int points);

/// A preview decodes nothing, so it has neither NLL nor output error, and no line of them.
bool previews(RunQuantity quantity);

/// Panels: "curves" (continuous). Data: run ("A", "B", "B-A"), first, last, n, mean, low, high (quartiles over heads), least,
/// greatest (of the point's positions). Throws Error (bad
/// input): no run, an empty one, compare without exactly two runs of a shape, a difference of runs without a common token.
BuiltFigure curves_figure(std::span<const RunRecord* const> runs, const CurvesOptions& options,
                          const FigureStyle& style);

}  // namespace kvscope::views
