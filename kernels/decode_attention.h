#pragma once
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// Attention of one query token over the occupied slots of its KV head:
///
///     o_h = sum_s softmax_s(scale * q_h . k_s) v_s     over slots s < n_slots with slot_position[s] >= 0
///
/// Query head h reads KV head h / group_size, group_size = n_heads / n_kv_heads. Accumulates in float32. A head without
/// any slot gives o = 0 and lse = -inf. `lse` is the natural log of the softmax denominator.
struct DecodeAttentionArgs {
  SlotCacheView cache;
  const void* q;  // [n_heads, head_dim] post-RoPE, cache.dtype
  void* o;        // [n_heads, head_dim], cache.dtype
  float* lse;     // [n_heads] or null
  int n_heads;
  float scale;  // head_dim^-1/2
};

void decode_attention(const DecodeAttentionArgs& args, Stream stream);
namespace cpu {
void decode_attention(const DecodeAttentionArgs& args);
}
namespace reference {
void decode_attention(const DecodeAttentionArgs& args);
}

}  // namespace kvscope::kernels
