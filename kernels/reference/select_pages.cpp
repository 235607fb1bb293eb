#include "kernels/select_pages.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {
namespace {

std::vector<float> load_row(const void* data, std::int64_t index, int n, DType dtype) {
  std::vector<float> row(n);
  for (int i = 0; i < n; ++i) row[i] = static_cast<float>(load(data, index + i, dtype));
  return row;
}

/// Position of the token in a slot, -1 if it is free or past the end.
std::int32_t position_in(const SlotCacheView& cache, int head, std::int32_t slot) {
  return slot < cache.n_slots[head] ? cache.slot_position[first_slot_of(cache, head) + slot] : -1;
}

PageRank rank_page(const SelectPagesArgs& args, int head, std::int32_t page) {
  const SlotCacheView& cache = args.cache;
  const int dim = cache.head_dim, group_size = args.n_heads / cache.n_kv_heads;
  std::int32_t newest = -1;
  for (int i = 0; i < cache.page_size; ++i) {
    newest = std::max(newest, position_in(cache, head, page * cache.page_size + i));
  }
  if (newest < 0) return kNoTokens;
  if (newest > *args.position - args.read_window) return rank_of_age(*args.position - newest);
  const std::int64_t low = (static_cast<std::int64_t>(head) * cache.max_pages + page) * 2 * dim;
  PageRank best = kNoTokens;
  for (int g = 0; g < group_size; ++g) {
    const std::int64_t q = static_cast<std::int64_t>(head * group_size + g) * dim;
    best = std::max(best, rank_of_score(page_score(load_row(args.q, q, dim, cache.dtype).data(),
                                                   load_row(args.bounds, low, dim, cache.dtype).data(),
                                                   load_row(args.bounds, low + dim, dim, cache.dtype).data(), dim)));
  }
  return best;
}

/// The pages that are read, in ascending order.
std::vector<std::int32_t> choose(const SelectPagesArgs& args, const std::vector<PageRank>& rank) {
  std::vector<std::int32_t> pages(rank.size());
  std::iota(pages.begin(), pages.end(), 0);
  std::erase_if(pages, [&](std::int32_t page) { return rank[page] == kNoTokens; });
  std::stable_sort(pages.begin(), pages.end(), [&](std::int32_t a, std::int32_t b) { return rank[a] > rank[b]; });
  const auto n_forced = std::count_if(rank.begin(), rank.end(), [](PageRank r) { return r > kBestScore; });
  const auto wanted = std::min<std::size_t>(std::max<std::size_t>(args.n_pages, n_forced), args.max_selected);
  pages.resize(std::min(pages.size(), wanted));
  std::sort(pages.begin(), pages.end());
  return pages;
}

}  // namespace

void select_pages(const SelectPagesArgs& args) {
  const SlotCacheView& cache = args.cache;
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    std::vector<PageRank> rank;
    for (std::int32_t page = 0; page * cache.page_size < cache.n_slots[head]; ++page) {
      rank.push_back(rank_page(args, head, page));
    }
    std::copy(rank.begin(), rank.end(), args.rank + static_cast<std::int64_t>(head) * cache.max_pages);
    const std::vector<std::int32_t> pages = choose(args, rank);
    args.n_slots[head] = 0;
    for (int i = 0; i < args.max_selected; ++i) {
      const bool is_read = i < static_cast<int>(pages.size());
      const std::int64_t to = static_cast<std::int64_t>(head) * args.max_selected + i;
      args.selected[to] = is_read ? pages[i] : -1;
      args.page_table[to] =
          is_read ? cache.page_table[static_cast<std::int64_t>(head) * cache.max_pages + pages[i]] : 0;
      for (int j = 0; j < cache.page_size; ++j) {
        const std::int32_t slot = is_read ? pages[i] * cache.page_size + j : cache.n_slots[head];
        args.slot_position[to * cache.page_size + j] = position_in(cache, head, slot);
        if (slot < cache.n_slots[head]) args.n_slots[head] = i * cache.page_size + j + 1;
      }
    }
  }
}

}  // namespace kvscope::kernels::reference
