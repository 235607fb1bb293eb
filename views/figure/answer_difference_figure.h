#pragma once
// Where the answers of two runs differ: both as one text, and what the runs recorded of the token at which they diverge.

#include <span>

#include "views/figure/answer_difference.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

/// Panels: "text" with "token.N" of each token of the joint text that is shown; where the answers diverge "choices", and where the
/// caches are compared "lost.a" and "lost.b" with a panel for each row. Without a height of the style at most 14 lines and 8 rows;
/// with one as many as there is room for, the text first.
/// Data, a row for each token of the joint text, then one for each lost token of "lost_a" and "lost_b": part, side (same, a, b),
/// position_a, position_b, token_id, token, logprob_a, logprob_b, heads, mass, layer, kv_head. What a row does not have is empty.
/// Throws Error (bad input): not two runs, an empty one, one without an answer.
BuiltFigure answer_difference_figure(std::span<const RunRecord* const> runs, const AnswerDifferenceOptions& options,
                                     const FigureStyle& style);
/// The same where the numbers are there. lost: null while it is being counted, or where the caches are not compared.
BuiltFigure answer_difference_figure(const RunRecord& a, const RunRecord& b, const ComparedAnswers& answers,
                                     const LostOfBoth* lost, const AnswerDifferenceOptions& options,
                                     const FigureStyle& style);

}  // namespace kvscope::views
