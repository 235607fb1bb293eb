#pragma once
// An axis of queries under a box in which each has a column.

#include "views/figure/figure_builder.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

/// Ticks, their numbers, and "Query" below them; query_axis_height() points.
void draw_query_axis(FigureBuilder& b, const Box& box, TokenSpan queries);
double query_axis_height(const FigureStyle& style);

}  // namespace kvscope::views
