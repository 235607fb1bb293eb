#pragma once
// Where a slot's data lie, for the CPU kernels.

#include "kernels/slot_cache.h"

namespace kvscope::kernels::cpu {

/// Index of the first element of slot `slot` of `head` in k_pool and v_pool.
inline std::int64_t slot_offset(const SlotCacheView& cache, int head, std::int32_t slot) {
  const std::int64_t page =
      cache.page_table[static_cast<std::int64_t>(head) * cache.max_pages + slot / cache.page_size];
  return (page * cache.page_size + slot % cache.page_size) * cache.head_dim;
}

/// Index of slot 0 of `head` in slot_position and slot_priority.
inline std::int64_t slot_row(const SlotCacheView& cache, int head) {
  return static_cast<std::int64_t>(head) * cache.max_pages * cache.page_size;
}

}  // namespace kvscope::kernels::cpu
