#include "tests/kernels/cache_fixture.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/kernels/numbers.h"

namespace kvscope::test {

std::size_t HostCache::row(int head, int slot) const {
  const std::size_t page = page_table[static_cast<std::size_t>(head) * max_pages + slot / page_size];
  return (page * page_size + slot % page_size) * head_dim;
}

HostCache empty_cache(const std::vector<int>& n_slots, int head_dim, int max_pages, kernels::DType dtype,
                      std::uint32_t seed, int page_size) {
  HostCache cache = {static_cast<int>(n_slots.size()), head_dim, page_size, max_pages, dtype};
  const auto pages_of = [&](int slots) { return (slots + page_size - 1) / page_size; };
  int n_pages = 2;  // more than are mapped
  for (const int slots : n_slots) n_pages += pages_of(slots);
  std::vector<std::int32_t> pages(n_pages);
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(seed));

  constexpr std::int32_t kUnmapped = 1 << 30;
  cache.page_table.assign(n_slots.size() * max_pages, kUnmapped);
  for (std::size_t head = 0; head < n_slots.size(); ++head) {
    for (int page = 0; page < pages_of(n_slots[head]); ++page) {
      cache.page_table[head * max_pages + page] = pages.back();
      pages.pop_back();
    }
  }
  cache.k_pool = cache.v_pool = poison(static_cast<std::size_t>(n_pages) * page_size * head_dim);
  cache.slot_position.assign(n_slots.size() * cache.capacity(), -1);
  cache.slot_priority = poison(n_slots.size() * cache.capacity());
  cache.n_slots.assign(n_slots.begin(), n_slots.end());
  return cache;
}

void fill_slots(HostCache& cache, int free_every, std::uint32_t seed) {
  const int dim = cache.head_dim;
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    const std::size_t n = static_cast<std::size_t>(cache.n_slots[head]) * dim;
    const auto k = rounded(random_normal(n, seed + head), cache.dtype);
    const auto v = rounded(random_normal(n, seed + 100 + head), cache.dtype);
    for (int slot = 0; slot < cache.n_slots[head]; ++slot) {
      if (free_every > 0 && slot % free_every == free_every - 1) continue;
      std::copy_n(k.begin() + slot * dim, dim, cache.k_pool.begin() + cache.row(head, slot));
      std::copy_n(v.begin() + slot * dim, dim, cache.v_pool.begin() + cache.row(head, slot));
      cache.slot_position[head * cache.capacity() + slot] = 3 * slot;
    }
  }
}

kernels::SlotCacheView upload(const HostCache& cache, Memory& memory) {
  return {.k_pool = memory.put(pack(cache.k_pool, cache.dtype)),
          .v_pool = memory.put(pack(cache.v_pool, cache.dtype)),
          .page_table = memory.put(cache.page_table),
          .slot_position = memory.put(cache.slot_position),
          .n_slots = memory.put(cache.n_slots),
          .slot_priority = memory.put(cache.slot_priority),
          .n_kv_heads = cache.n_kv_heads,
          .head_dim = cache.head_dim,
          .page_size = cache.page_size,
          .max_pages = cache.max_pages,
          .dtype = cache.dtype};
}

}  // namespace kvscope::test
