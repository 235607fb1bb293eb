#pragma once
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// Writes one new token's key and value into one slot of every KV head and notes its position there.
///
/// slot[h] is where head h puts it (chosen by retain_step). A slot of -1 writes nothing for that head.
struct AppendArgs {
  SlotCacheView cache;
  const void* k;             // [n_kv_heads, head_dim] post-RoPE key, cache.dtype
  const void* v;             // [n_kv_heads, head_dim]
  const std::int32_t* slot;  // [n_kv_heads]
  std::int32_t position;     // of the new token
};

void append(const AppendArgs& args, Stream stream);
namespace cpu {
void append(const AppendArgs& args);
}
namespace reference {
void append(const AppendArgs& args);
}

/// The same for many tokens at once, as a prefill leaves them: token row i of head h goes to slot[h * n_tokens + i]
/// (or nowhere if -1) and takes position[i].
struct AppendManyArgs {
  SlotCacheView cache;
  const void* k;                 // [n_tokens, n_kv_heads, head_dim]
  const void* v;                 // [n_tokens, n_kv_heads, head_dim]
  const std::int32_t* slot;      // [n_kv_heads, n_tokens]
  const std::int32_t* position;  // [n_tokens]
  std::int64_t n_tokens;
};

void append_many(const AppendManyArgs& args, Stream stream);
namespace cpu {
void append_many(const AppendManyArgs& args);
}
namespace reference {
void append_many(const AppendManyArgs& args);
}

}  // namespace kvscope::kernels
