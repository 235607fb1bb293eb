#pragma once
// The mLSTM scorer of one KV head and token, by its definition.

#include <vector>

#include "kernels/admit_step.h"

namespace kvscope::kernels::reference {

/// Absorbs the token at `position`, x = [k ; v] [2 dim], into the memory of `head`. Returns the score of token position -
/// delay, NaN while there is none.
double score_head(const MlstmScorerView& scorer, int head, int dim, std::int64_t position,
                  const std::vector<double>& x);

}  // namespace kvscope::kernels::reference
