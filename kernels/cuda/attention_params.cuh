#pragma once
// What both kernels of lifetime attention share.

#include "kernels/cuda/score_variant.cuh"
#include "kernels/cuda/softmax_state.cuh"
#include "kernels/cuda/visible_keys.cuh"
#include "kernels/lifetime_attention.h"

namespace kvscope::kernels {

struct AttentionParams {
  LifetimeAttentionArgs args;
  long long token_stride, head_stride;  // of keys and values, elements
  int group_size;
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

}  // namespace kvscope::kernels
