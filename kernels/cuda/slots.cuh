#pragma once
// Where a slot's data lie, for the CUDA kernels.

#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// Index of the first element of slot `slot` of `head` in k_pool and v_pool.
__device__ inline long long slot_offset(const SlotCacheView& cache, int head, int slot) {
  const long long page = cache.page_table[static_cast<long long>(head) * cache.max_pages + slot / cache.page_size];
  return (page * cache.page_size + slot % cache.page_size) * cache.head_dim;
}

/// Index of slot 0 of `head` in slot_position and slot_priority.
__device__ inline long long slot_row(const SlotCacheView& cache, int head) {
  return static_cast<long long>(head) * cache.max_pages * cache.page_size;
}

}  // namespace kvscope::kernels
