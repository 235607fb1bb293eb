#pragma once
// The picture of one run's heads: which share of the span each has at each query, and its evictions.

#include "engine/core/record/run_record.h"
#include "views/figure/figure.h"
#include "views/figure/lost_fact.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

/// Of an eviction at a query: the oracle would have kept the token, would not, or there is no verdict.
Colour eviction_colour(EvictionVerdict verdict, bool dark);
/// Of the share of the span that a head has.
Colour share_colour(double share, bool dark);

/// Cells of at least two points by one, so that an eviction is seen however long the run is. One of several heads and queries has
/// their mean share, and the colour of the worst eviction among them.
Image lost_fact_image(const RunRecord& run, const LostFactRun& lost, TokenSpan queries, const Box& box, bool dark);

}  // namespace kvscope::views
