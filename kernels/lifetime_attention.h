#pragma once
#include "kernels/operation.h"
#include "kernels/score_variant.h"

namespace kvscope::kernels {

/// Attention under a lifetime mask, the one rule that serves every method:
///
///     visible(q, t)  <=>  t <= q < evict_at[kv_head][t]
///     o_q = sum_t softmax_t(scale * q . k_t) v_t    over visible t
///
/// or with the scores and the sink logits of `variant` (score_variant.h). Queries are positions q_start ... q_start +
/// q_len - 1. Key i is position i (then kv_len >= q_start + q_len), or k_position[kv_head][i]: keys in any order, every
/// head its own, as a cache has them that evicts. A null evict_at is plain causal attention. Query head h reads KV head
/// h / (n_heads / n_kv_heads). float32 inside. A query that sees nothing gives o = 0 and lse = -inf (its own token is
/// always visible in every real policy). Rows of keys and values that no query sees are not read, and cost next to
/// nothing: the work is that of the visible ones.
struct LifetimeAttentionArgs {
  const void* q;                 // [q_len, n_heads, head_dim] post-RoPE
  const void* k;                 // [kv_len, n_kv_heads, head_dim] post-RoPE
  const void* v;                 // [kv_len, n_kv_heads, head_dim]
  const std::int32_t* evict_at;  // [n_kv_heads, kv_len] or null
  void* o;                       // [q_len, n_heads, head_dim]
  float* lse;                    // [n_heads, q_len] natural log, or null
  std::int64_t q_start;
  std::int64_t q_len;
  std::int64_t kv_len;
  int n_heads;
  int n_kv_heads;
  int head_dim;  // CUDA: 64, 80, 96, 128, 192, 256
  float scale;
  DType dtype;
  const std::int32_t* k_position = nullptr;  // [n_kv_heads, kv_len], or null: key i is position i
  std::int64_t kv_token_stride = 0;  // elements from a key (a value) to the next of its head; 0: n_kv_heads * head_dim
  std::int64_t kv_head_stride = 0;   // elements from a head to the next; 0: head_dim
  ScoreVariant variant = {};
};

/// Strides with the defaults filled in.
inline std::int64_t token_stride(const LifetimeAttentionArgs& args) {
  return args.kv_token_stride != 0 ? args.kv_token_stride : static_cast<std::int64_t>(args.n_kv_heads) * args.head_dim;
}
inline std::int64_t head_stride(const LifetimeAttentionArgs& args) {
  return args.kv_head_stride != 0 ? args.kv_head_stride : args.head_dim;
}

KVSCOPE_OPERATION(lifetime_attention, LifetimeAttentionArgs);

}  // namespace kvscope::kernels
