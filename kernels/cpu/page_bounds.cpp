#include "kernels/page_bounds.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels::cpu {
namespace {

/// low[i], high[i]: stretched so far that x[i] lies between them. A NaN takes their place and stays.
KVSCOPE_CLONES void stretch(float* low, float* high, const float* x, int n) {
  for (int i = 0; i < n; ++i) {
    low[i] = (x[i] < low[i]) | (x[i] != x[i]) ? x[i] : low[i];
    high[i] = (x[i] > high[i]) | (x[i] != x[i]) ? x[i] : high[i];
  }
}

void bound_page(const PageBoundsArgs& args, int head, std::int32_t page) {
  const SlotCacheView& cache = args.cache;
  const int dim = cache.head_dim;
  const std::int32_t* position = cache.slot_position + slot_row(cache, head);
  const std::int32_t end = std::min(cache.n_slots[head], (page + 1) * cache.page_size);
  float bounds[2 * kMaxHeadDim], buffer[kMaxHeadDim];
  float* high = bounds + dim;
  std::fill_n(bounds, dim, INFINITY);
  std::fill_n(high, dim, -INFINITY);
  bool is_empty = true;
  for (std::int32_t slot = page * cache.page_size; slot < end; ++slot) {
    if (position[slot] < 0) continue;
    stretch(bounds, high, as_floats(cache.k_pool, slot_offset(cache, head, slot), dim, cache.dtype, buffer), dim);
    is_empty = false;
  }
  if (is_empty) return;
  const std::int64_t to = (static_cast<std::int64_t>(head) * cache.max_pages + page) * 2 * dim;
  store(bounds, args.bounds, to, 2 * dim, cache.dtype);
}

}  // namespace

void page_bounds(const PageBoundsArgs& args) {
  const SlotCacheView& cache = args.cache;
  const std::int64_t page_cost = 2L * cache.page_size * cache.head_dim;
  if (args.decision) {
    parallel_for(cache.n_kv_heads, page_cost, [&](std::int64_t head) {
      const std::int32_t slot = args.decision[head].slot;
      if (slot >= 0) bound_page(args, static_cast<int>(head), slot / cache.page_size);
    });
    return;
  }
  parallel_for(cache.n_kv_heads, cache.max_pages * page_cost, [&](std::int64_t head) {
    const std::int32_t n_pages = (cache.n_slots[head] + cache.page_size - 1) / cache.page_size;
    for (std::int32_t page = 0; page < n_pages; ++page) bound_page(args, static_cast<int>(head), page);
  });
}

}  // namespace kvscope::kernels::cpu
