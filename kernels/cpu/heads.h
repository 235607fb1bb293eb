#pragma once
// What one KV head does in operations that also run as a part of others. Arguments have been validated.

#include "kernels/admit_step.h"
#include "kernels/mlstm_step.h"
#include "kernels/retain_policy.h"

namespace kvscope::kernels::cpu {

/// retain_step.h for one head at query position `position`, whose newcomer has `score` (any number where the rule asks
/// for none).
RetainDecision retain_head(const SlotCacheView& cache, const RetainPolicy& policy, int head, std::int32_t position,
                           float score);

/// mlstm_step.h for one head.
void mlstm_head(const MlstmStepArgs& args, int head);

/// Absorbs the token at `position`, x = [k ; v] [2 head_dim], into the memory of `head` and returns the score of token
/// position - delay, NaN while there is none (admit_step.h).
float score_head(const MlstmScorerView& scorer, int head, int head_dim, std::int32_t position, const float* x);

}  // namespace kvscope::kernels::cpu
