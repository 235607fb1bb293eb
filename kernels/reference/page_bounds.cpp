#include "kernels/page_bounds.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {
namespace {

void bound_page(const PageBoundsArgs& args, int head, std::int32_t page) {
  const SlotCacheView& cache = args.cache;
  const std::int32_t end = std::min(cache.n_slots[head], (page + 1) * cache.page_size);
  const std::int64_t to = (static_cast<std::int64_t>(head) * cache.max_pages + page) * 2 * cache.head_dim;
  for (int i = 0; i < cache.head_dim; ++i) {
    double low = INFINITY, high = -INFINITY;
    bool is_empty = true, has_nan = false;
    for (std::int32_t slot = page * cache.page_size; slot < end; ++slot) {
      if (cache.slot_position[first_slot_of(cache, head) + slot] < 0) continue;
      const double x = load(cache.k_pool, first_element_of(cache, head, slot) + i, cache.dtype);
      low = std::fmin(low, x);
      high = std::fmax(high, x);
      is_empty = false;
      has_nan |= std::isnan(x);
    }
    if (is_empty) continue;
    store(args.bounds, to + i, cache.dtype, has_nan ? NAN : low);
    store(args.bounds, to + cache.head_dim + i, cache.dtype, has_nan ? NAN : high);
  }
}

}  // namespace

void page_bounds(const PageBoundsArgs& args) {
  const SlotCacheView& cache = args.cache;
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    for (std::int32_t page = 0; page * cache.page_size < cache.n_slots[head]; ++page) {
      const std::int32_t first = page * cache.page_size;
      const std::int32_t slot = args.decision ? args.decision[head].slot : first;
      if (slot >= first && slot < first + cache.page_size) bound_page(args, head, page);
    }
  }
}

}  // namespace kvscope::kernels::reference
