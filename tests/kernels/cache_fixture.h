#pragma once
// A paged slot cache with holes, in the memory of one back end.

#include <cstdint>
#include <vector>

#include "kernels/slot_cache.h"
#include "tests/kernels/backend.h"

namespace kvscope::test {

/// The cache on the host, slot by slot. Everything that a kernel must not use is NaN or out of range.
struct HostCache {
  int n_kv_heads;
  int head_dim;
  int page_size;
  int max_pages;
  kernels::DType dtype;
  std::vector<float> k_pool, v_pool;        // [n_pages, page_size, head_dim]
  std::vector<std::int32_t> page_table;     // [n_kv_heads, max_pages]; a huge number where no page is mapped
  std::vector<std::int32_t> slot_position;  // [n_kv_heads, max_pages * page_size]
  std::vector<std::int32_t> n_slots;        // [n_kv_heads]
  std::vector<float> slot_priority;         // [n_kv_heads, max_pages * page_size]

  int capacity() const { return max_pages * page_size; }
  /// First element of a slot's row in the pools.
  std::size_t row(int head, int slot) const;
};

/// Pages mapped in shuffled order for n_slots[head] slots of each head; all slots free (position -1), pools NaN.
HostCache empty_cache(const std::vector<int>& n_slots, int head_dim, int max_pages, kernels::DType dtype,
                      std::uint32_t seed, int page_size = 16);

/// Random keys and values of variance 1 in the cache's dtype in slots 0 ... n_slots - 1 of each head, but for every
/// `free_every`-th, which stays free and NaN (0: none). Slot s holds position 3 s. The same for the same seed.
void fill_slots(HostCache& cache, int free_every, std::uint32_t seed);

/// Copies it to the back end; the view stays valid as long as `memory`.
kernels::SlotCacheView upload(const HostCache& cache, Memory& memory);

}  // namespace kvscope::test
