#pragma once
#include "kernels/dtype.h"

namespace kvscope::kernels {

/// Attention under a lifetime mask, the one rule that serves every method:
///
///     visible(q, t)  <=>  t <= q < evict_at[kv_head][t]
///     o_q = sum_t softmax_t(scale * q . k_t) v_t    over visible t
///
/// Queries are positions q_start ... q_start + q_len - 1, keys positions 0 ... kv_len - 1 (kv_len >= q_start + q_len).
/// A null evict_at is plain causal attention. Query head h reads KV head h / (n_heads / n_kv_heads). float32 inside.
/// A query that sees nothing gives o = 0 and lse = -inf (its own token is always visible in every real policy).
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
  int head_dim;  // 64, 80, 96, 128
  float scale;
  DType dtype;
};

void lifetime_attention(const LifetimeAttentionArgs& args, Stream stream);
namespace cpu {
void lifetime_attention(const LifetimeAttentionArgs& args);
}
namespace reference {
void lifetime_attention(const LifetimeAttentionArgs& args);
}

}  // namespace kvscope::kernels
