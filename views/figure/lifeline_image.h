#pragma once
// The life of every token of one head as a picture: x = query position, y = token, colour = what the token is to the query.

#include "engine/core/record/run_record.h"
#include "views/figure/figure.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

struct LifelineWindow {
  TokenSpan queries, tokens;  // inside the run, not empty
  int max_columns, max_rows;  // cells; fewer where there are fewer queries or tokens
};

/// Token 0 at the bottom. A cell of several tokens and queries has the mean colour of all their pairs, none left out;
/// pairs without a state (not born, undecided) count as background, cells of nothing else have alpha 0. Costs
/// O(tokens + cells), and with page reads O(reads x rows) besides.
Image lifeline_image(const RunRecord& run, int layer, int kv_head, const LifelineWindow& window, bool dark);
/// Of the whole run.
Image lifeline_image(const RunRecord& run, int layer, int kv_head, int max_side, bool dark);

}  // namespace kvscope::views
