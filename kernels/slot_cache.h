#pragma once
#include "kernels/dtype.h"
#include "kernels/host_device.h"

namespace kvscope::kernels {

/// One layer of the paged, ragged slot cache, as the kernels see it (all pointers on the device that runs them).
///
/// Every KV head owns `n_slots[head]` slots. Slot s of head h lies in page `page_table[h * max_pages + s / page_size]`
/// at row s % page_size; page p starts at pool + p * page_size * head_dim elements. `slot_position` says which token
/// (by its position) lives in a slot, or -1 for a free one. The order of slots means nothing: keys carry their own
/// rotation, so attention over slots in any order is the same.
struct SlotCacheView {
  void* k_pool;                    // [n_pages, page_size, head_dim]
  void* v_pool;                    // [n_pages, page_size, head_dim]
  const std::int32_t* page_table;  // [n_kv_heads, max_pages]
  std::int32_t* slot_position;     // [n_kv_heads, max_pages * page_size]
  std::int32_t* n_slots;           // [n_kv_heads] slots in use or once used, an upper bound for loops
  float* slot_priority;            // [n_kv_heads, max_pages * page_size] raw score, see retain_step.h
  int n_kv_heads;
  int head_dim;
  int page_size;  // tokens a page, 16
  int max_pages;  // columns of page_table
  DType dtype;
};

/// Index of the first element of slot `slot` of `head` in k_pool and v_pool.
KVSCOPE_HOST_DEVICE inline std::int64_t slot_offset(const SlotCacheView& cache, int head, std::int32_t slot) {
  const std::int64_t page =
      cache.page_table[static_cast<std::int64_t>(head) * cache.max_pages + slot / cache.page_size];
  return (page * cache.page_size + slot % cache.page_size) * cache.head_dim;
}

/// Index of slot 0 of `head` in slot_position and slot_priority.
KVSCOPE_HOST_DEVICE inline std::int64_t slot_row(const SlotCacheView& cache, int head) {
  return static_cast<std::int64_t>(head) * cache.max_pages * cache.page_size;
}

}  // namespace kvscope::kernels
