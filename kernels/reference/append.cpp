#include "kernels/append.h"

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void append(const AppendArgs& args) {
  const SlotCacheView& cache = args.cache;
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    for (std::int64_t token = 0; token < args.n_tokens; ++token) {
      const std::int32_t slot = args.slot[head * args.n_tokens + token];
      if (slot < 0) continue;
      const std::int64_t from = (token * cache.n_kv_heads + head) * cache.head_dim;
      const std::int64_t to = first_element_of(cache, head, slot);
      for (int i = 0; i < cache.head_dim; ++i) {
        store(cache.k_pool, to + i, cache.dtype, load(args.k, from + i, cache.dtype));
        store(cache.v_pool, to + i, cache.dtype, load(args.v, from + i, cache.dtype));
      }
      cache.slot_position[first_slot_of(cache, head) + slot] = args.position[token];
    }
  }
}

}  // namespace kvscope::kernels::reference
