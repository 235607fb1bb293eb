#pragma once
// The heads on the board, as what is exported and measured.

#include <optional>
#include <vector>

#include "engine/core/study/heads/head_selection.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

/// What its local heads keep: sinks and window of the run; of a run without a window (a dense one) the 128 newest tokens of
/// SP-KV's hybrids.
LocalSizes board_sizes(const RunRecord& run);
/// The strategy by which the heads on the board were chosen; nothing where that was done by hand.
std::optional<HeadStrategy> board_strategy(const HeadBoard& board);
/// The heads on the board with their coverage by the run, of which `entries` are (long_range_entries()); with the ties of the
/// strategy that chose them.
HeadSelection board_selection(const RunRecord& run, const std::vector<std::int64_t>& entries, const HeadBoard& board);
/// Puts a strategy's choice on the board: A and B their own number of heads, C and D the board's share. Throws Error (usage,
/// bad input) like choose_heads(); the board stays then as it was.
void fill_board(HeadBoard& board, const RunRecord& run, const std::vector<std::int64_t>& entries,
                HeadStrategy strategy);

/// Mean NLL, nats a token, over the tokens that both runs give a probability under the same text before it.
struct PairedNll {
  double a = 0, b = 0;
  int n = 0;  // tokens; 0: a and b are NaN
};
PairedNll paired_nll(const RunRecord& a, const RunRecord& b);

}  // namespace kvscope::views
