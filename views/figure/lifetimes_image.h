#pragma once
// Lifetimes of more tokens than there is room for bars: a picture of cells, each the most common state of its tokens.

#include <span>

#include "engine/core/study/heads/token_lives.h"
#include "views/figure/figure.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

/// The colour of a cell after the eviction, where the line cannot be thin: paler than the line.
Colour pale_life_colour(EvictionVerdict verdict, bool dark);

/// A row of cells for each row of tokens, from the top, or for several of them; a column for each query or several. A cell has
/// the state in which most of its tokens are at its last query; of equally many a wrong eviction comes first, then one
/// without verdict, a right one, kept, sink, window, not read. `end`: the run's queries. Costs O(tokens + cells).
Image lifetimes_image(std::span<const TokenLife> rows, TokenSpan queries, std::int32_t end, int max_columns,
                      int max_rows, bool dark);

}  // namespace kvscope::views
