#pragma once
// Which heads still have a span of the text, query by query: rows are the heads of each run, columns are queries.

#include <span>
#include <vector>

#include "views/figure/figure_style.h"
#include "views/figure/lost_fact.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

/// The queries of the figure's axis: those of the longest run, or the part that is shown.
TokenSpan lost_fact_queries(std::span<const RunRecord* const> runs, const LostFactOptions& options);

/// Panels: "heads", "heads.1" ... of the runs in their order. A cell has at most as many rows and columns as leave it one point
/// high and two points wide; one of several heads and queries has their mean share, and the colour of the worst eviction
/// among them. Data, a row for each head: run, layer, kv_head, tokens, held_at_answer, held_at_end, gone_at (empty if some are
/// still there), evicted, judged, wrong, mass_lost (empty without an oracle), token_queries, bytes.
/// Throws Error (bad input) as lost_fact_runs() does.
BuiltFigure lost_fact_figure(std::span<const RunRecord* const> runs, const LostFactOptions& options,
                             const FigureStyle& style);
/// The same where the numbers are there. lost: lost_fact_runs() of these runs and options.
BuiltFigure lost_fact_figure(std::span<const RunRecord* const> runs, std::span<const LostFactRun> lost,
                             const LostFactOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
