#pragma once
// Lifetimes (a Gantt chart): rows are tokens of one head, columns are queries.

#include <span>
#include <vector>

#include "views/figure/figure_style.h"
#include "views/figure/lifetimes.h"

namespace kvscope::views {

inline constexpr double kLeastLifePitch = 3;  // points of a row that has bars; lower ones are cells

/// Panel: "lives" (continuous). A bar from the query that reads a token to its eviction, in the colours of sink, window and
/// kept, then a thin line to the last query in the colour of the verdict. Lower rows than kLeastLifePitch are cells of
/// lifetimes_image(). Data, a row for each token that is shown, in its order: token, text, born, left_window, evict_at (empty: it is
/// there to the end), life, verdict (wrong, right or none; empty: not evicted), cost (empty without an oracle).
/// Throws Error (bad input) as lifetimes_of() does.
BuiltFigure lifetimes_figure(const RunRecord& run, const LifetimesOptions& options, const FigureStyle& style);

/// The same for the screen, where a point is a pixel, without its numbers. lives: lifetimes_of() these options.
Figure lifetimes_picture(const RunRecord& run, std::span<const TokenLife> lives, const LifetimesOptions& options,
                         const FigureStyle& style);

}  // namespace kvscope::views
