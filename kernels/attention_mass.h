#pragma once
#include "kernels/host_device.h"
#include "kernels/operation.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// What becomes of the attention that a slot received.
enum class MassRule : std::int32_t {
  sum = 0,   // H2O: the slot's priority grows by it, a mean over the query heads of the group
  last = 1,  // TOVA: it is the slot's priority, a mean over all query heads of the layer, the same for every KV head
  mean =
      2,  // H2O divided by the number of queries: the slot's priority is the mean over those that could see its token
};

/// The attention that the occupied slots received from one query token, after decode_attention:
///
///     p[h][s] = exp(scale * q_h . k_s - lse[h])          s < n_slots of the KV head, slot_position[s] >= 0
///
///     sum:   priority[kv][s] (+)= mean of p[h][s] over the heads h of group kv
///            assigned instead where slot_position[kv][s] is *position: the slot's last token had another sum
///     last:  priority[kv][s]   = mean of p[h][s] over all heads h
///     mean:  priority[kv][s]  += (m - priority[kv][s]) / n, m as for sum, n = *position - slot_position[kv][s] + 1;
///            assigned instead as for sum
///
/// With a soft_cap p is exp(s - lse) of the scores s of score_variant.h; a sink is in lse alone.
///
/// priority is cache.slot_priority; free slots keep theirs. Accumulates in float32, one owner and one order for every
/// slot. Rule `last` asks that all KV heads hold the same tokens in the same slots; where they do not, its means mean
/// nothing, but no free slot is read.
struct AttentionMassArgs {
  SlotCacheView cache;           // v_pool is not read and may be null
  const void* q;                 // [n_heads, head_dim] post-RoPE, cache.dtype; on CUDA 16-byte aligned as k_pool is
  const float* lse;              // [n_heads] natural log, as decode_attention gives it
  const std::int32_t* position;  // one number, the new token's; may be null for `last`
  int n_heads;
  float scale;  // head_dim^-1/2
  MassRule rule;
  float soft_cap = 0;
};

/// The priority of a token at `t` after the query at `newest`, which paid it `mass`; of sum and mean.
KVSCOPE_HOST_DEVICE inline float priority_after(MassRule rule, float before, float mass, std::int32_t t,
                                                std::int32_t newest) {
  if (t == newest) return mass;
  return rule == MassRule::sum ? before + mass : before + (mass - before) / static_cast<float>(newest - t + 1);
}

/// Reads n_slots and the position on the device: no host synchronisation, no allocation, launch shape fixed by
/// max_pages. Throws std::invalid_argument for a head_dim other than 64, 80, 96, 128, 192, 256, CudaError if the launch
/// fails.
KVSCOPE_OPERATION(attention_mass, AttentionMassArgs);

}  // namespace kvscope::kernels
