#pragma once
// What both kernels of lifetime attention share.

#include "kernels/cuda/visible_keys.cuh"
#include "kernels/lifetime_attention.h"

namespace kvscope::kernels {

constexpr float kLn2 = 0.69314718056f;

struct AttentionParams {
  LifetimeAttentionArgs args;
  long long token_stride, head_stride;  // of keys and values, elements
  int group_size;
  float log2_scale;  // scale * log2(e)
};

/// The keys among which queries first_q ... last_q look.
__device__ inline KeySource key_source(const AttentionParams& p, int kv_head, int first_q, int last_q) {
  const long long row = kv_head * static_cast<long long>(p.args.kv_len);
  const int kv_len = static_cast<int>(p.args.kv_len);
  return {.position = p.args.k_position ? p.args.k_position + row : nullptr,
          .evict_at = p.args.evict_at ? p.args.evict_at + row : nullptr,
          .end = p.args.k_position ? kv_len : min(kv_len, last_q + 1),
          .first_q = first_q,
          .last_q = last_q};
}

/// Online softmax of one row: exp2(x - shift) of each logit follows from what this returns.
struct RowState {
  float m = -INFINITY;
  float l = 0;
  float shift = 0;  // m, or 0 while nothing was seen: -inf - -inf would be NaN

  /// Takes in the maximum of a tile's row; returns the factor for what was summed before.
  __device__ float raise(float row_max) {
    const float m_new = fmaxf(m, row_max);
    shift = m_new == -INFINITY ? 0.0f : m_new;
    const float correction = exp2f(m - shift);
    l *= correction;
    m = m_new;
    return correction;
  }
  __device__ float lse() const { return kLn2 * (m + log2f(l)); }  // -inf for a row that saw nothing
};

__device__ inline float inverse_or_zero(float l) { return l == 0 ? 0.0f : 1 / l; }

}  // namespace kvscope::kernels
