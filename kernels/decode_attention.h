#pragma once
#include "kernels/operation.h"
#include "kernels/score_variant.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// Attention of one query token over the occupied slots of its KV head:
///
///     o_h = sum_s softmax_s(scale * q_h . k_s) v_s     over slots s < n_slots with slot_position[s] >= 0
///
/// or with the scores and the sink logits of `variant` (score_variant.h). Query head h reads KV head h / group_size,
/// group_size = n_heads / n_kv_heads. Accumulates in float32. A head without any slot gives o = 0 and lse = -inf. `lse`
/// is the natural log of the softmax denominator.
struct DecodeAttentionArgs {
  SlotCacheView cache;
  const void* q;  // [n_heads, head_dim] post-RoPE, cache.dtype; on CUDA 16-byte aligned as the pools are
  void* o;        // [n_heads, head_dim], cache.dtype
  float* lse;     // [n_heads] or null
  int n_heads;
  float scale;               // head_dim^-1/2
  float* scratch = nullptr;  // CUDA only: decode_attention_scratch_floats(...) floats, see there
  ScoreVariant variant = {};
};

/// How many floats of device memory the CUDA version wants as `scratch`: it depends on the capacity of the cache, not
/// on what is in it, so one buffer serves every step. Zeros before the first call, and then left to these calls alone (it
/// counts who has finished); no two calls in flight may share it. Without scratch (null) one block walks through all
/// slots of a head: right, but slow for long caches.
std::int64_t decode_attention_scratch_floats(int n_heads, const SlotCacheView& cache);

/// Reads n_slots on the device: no host synchronisation, no allocation, launch shape fixed by max_pages.
/// Throws std::invalid_argument for a head_dim other than 64, 80, 96, 128, 192, 256, CudaError if the launch fails.
KVSCOPE_OPERATION_OF_ROWS(decode_attention, DecodeAttentionArgs);

}  // namespace kvscope::kernels
