#include "kernels/append.h"

#include <cstring>

#include "kernels/parallel_for.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels::cpu {

void append(const AppendArgs& args) {
  const SlotCacheView& cache = args.cache;
  const std::size_t row_bytes = cache.head_dim * size_of(cache.dtype);
  const auto copy_row = [&](const void* from, std::int64_t row, void* to, std::int64_t offset) {
    std::memcpy(static_cast<char*>(to) + offset * size_of(cache.dtype),
                static_cast<const char*>(from) + row * row_bytes, row_bytes);
  };
  parallel_for(cache.n_kv_heads, args.n_tokens * cache.head_dim, [&](std::int64_t head) {
    for (std::int64_t token = 0; token < args.n_tokens; ++token) {
      const std::int32_t slot = args.slot[head * args.n_tokens + token];
      if (slot < 0) continue;
      const std::int64_t offset = slot_offset(cache, static_cast<int>(head), slot);
      copy_row(args.k, token * cache.n_kv_heads + head, cache.k_pool, offset);
      copy_row(args.v, token * cache.n_kv_heads + head, cache.v_pool, offset);
      cache.slot_position[slot_row(cache, static_cast<int>(head)) + slot] = args.position[token];
    }
  });
}

}  // namespace kvscope::kernels::cpu
