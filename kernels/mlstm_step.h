#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// One step of the mLSTM scorer's memory and its delayed read (KVpop eq. 10-11, App. E.3), for every KV head:
///
///     m'  = max(log_f + m, log_i)          f' = exp(log_f + m - m'),  i' = exp(log_i - m')
///     C   = f' C + i' k~ v~^T              z  = f' z + i' k~
///     h   = q~^T C / max(q~^T z, 1e-6)     with q~ of the token that leaves the window (null q: no read)
///
/// With `guarded` the denominator is max(|q~^T z|, exp(-m'), 1e-30), that of mlstm_kernels: in units without the
/// stabiliser max(|q~^T z|, 1), so that a memory that holds little gives little. (1e-30: where both underflow h is 0.)
///
/// All float32. The stabiliser m is the running maximum, so that h equals the quadratic form with its row maximum.
struct MlstmStepArgs {
  float* c;            // [n_heads, d_key, d_value] state, updated
  float* z;            // [n_heads, d_key] state, updated
  float* m;            // [n_heads] state, updated; -inf before the first token
  const float* k;      // [n_heads, d_key] k~ of the new token
  const float* v;      // [n_heads, d_value] v~ of the new token
  const float* log_i;  // [n_heads] log of the input gate
  const float* log_f;  // [n_heads] log of the forget gate, <= 0
  const float* q;      // [n_heads, d_key] q~ of the token to score, or null
  float* h;            // [n_heads, d_value] out, untouched if q is null
  int n_heads;
  int d_key;    // at most 256
  int d_value;  // at most 256
  bool guarded = false;
};

/// By itself what the scorers of admit_step are made of on the CPU (cpu/heads.h) and judged by; on CUDA there is only the
/// scorer as a whole (cuda/mlstm_scorer.cuh), and a place there is refused.
void mlstm_step(const MlstmStepArgs& args, Place place);
namespace reference {
void mlstm_step(const MlstmStepArgs& args);
}
namespace cpu {
void mlstm_step(const MlstmStepArgs& args);
}

}  // namespace kvscope::kernels
