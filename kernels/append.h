#pragma once
#include "kernels/operation.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// Writes the keys and values of new tokens into the slots of every KV head and notes their positions there: token i of
/// head h goes to slot[h][i] (nowhere if that is -1) and takes position[i].
struct AppendArgs {
  SlotCacheView cache;
  const void* k;                 // [n_tokens, n_kv_heads, head_dim] post-RoPE keys, cache.dtype
  const void* v;                 // [n_tokens, n_kv_heads, head_dim]
  const std::int32_t* slot;      // [n_kv_heads, n_tokens]
  const std::int32_t* position;  // [n_tokens]
  std::int64_t n_tokens;
};

KVSCOPE_OPERATION(append, AppendArgs);

}  // namespace kvscope::kernels
