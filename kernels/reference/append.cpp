#include "kernels/append.h"

#include "kernels/reference/element.h"
#include "kernels/validate.h"

namespace kvscope::kernels::reference {

void append(const AppendArgs& args) {
  validate(args);
  append_many(
      {.cache = args.cache, .k = args.k, .v = args.v, .slot = args.slot, .position = &args.position, .n_tokens = 1});
}

void append_many(const AppendManyArgs& args) {
  validate(args);
  const SlotCacheView& cache = args.cache;
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    for (std::int64_t token = 0; token < args.n_tokens; ++token) {
      const std::int32_t slot = args.slot[head * args.n_tokens + token];
      if (slot < 0) continue;
      const std::int64_t from = (token * cache.n_kv_heads + head) * cache.head_dim;
      const std::int64_t to = slot_offset(cache, head, slot);
      for (int i = 0; i < cache.head_dim; ++i) {
        store(cache.k_pool, to + i, cache.dtype, load(args.k, from + i, cache.dtype));
        store(cache.v_pool, to + i, cache.dtype, load(args.v, from + i, cache.dtype));
      }
      cache.slot_position[slot_row(cache, head) + slot] = args.position[token];
    }
  }
}

}  // namespace kvscope::kernels::reference
