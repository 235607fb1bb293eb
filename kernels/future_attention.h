#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// The transposed pass behind the future-attention target (KVpop eq. 2 and 8): adds, for each key t and query head h,
///
///     mass[h][t] += sum_q exp(scale * q_{h,q} . k_t - lse[h][q])
///
/// and if wanted the squares of the same terms to square[h][t], and takes the greatest of them into most[h][t],
///
/// over queries q in [q_start, q_start + q_len) with q >= t + window and, if look_ahead > 0, q <= t + window +
/// look_ahead. With a soft_cap the terms are exp(s - lse) of the scores s of score_variant.h; a sink is in lse alone.
/// Every term is a probability, so the sum is kept in linear float32: after S queries it is at most S.
/// Calling it chunk by chunk adds up to one pass; nothing of size queries x keys is stored.
struct FutureAttentionArgs {
  const void* q;     // [q_len, n_heads, head_dim] post-RoPE
  const void* k;     // [kv_len, n_kv_heads, head_dim] post-RoPE, positions 0 ... kv_len - 1
  const float* lse;  // [n_heads, q_len] natural log of each query's dense softmax denominator
  float* mass;       // [n_heads, mass_stride], added to at t < kv_len
  float* square;     // the same shape; both of these or none
  float* most;       // at first 0
  std::int64_t mass_stride;
  std::int64_t q_start;
  std::int64_t q_len;
  std::int64_t kv_len;
  int n_heads;
  int n_kv_heads;
  int head_dim;
  int window;
  std::int64_t look_ahead;  // 0: to the end
  float scale;
  DType dtype;
  float soft_cap = 0;
};

KVSCOPE_OPERATION(future_attention, FutureAttentionArgs);

}  // namespace kvscope::kernels
