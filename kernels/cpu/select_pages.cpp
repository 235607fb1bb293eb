#include "kernels/select_pages.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels::cpu {
namespace {

/// The greatest rank that a query of the group gives the page; q [group_size, head_dim], bounds [2, head_dim].
KVSCOPE_CLONES PageRank best_rank(const float* q, const float* bounds, int group_size, int head_dim) {
  PageRank best = kNoTokens;
  for (int g = 0; g < group_size; ++g) {
    const PageRank rank = rank_of_score(page_score(q + g * head_dim, bounds, bounds + head_dim, head_dim));
    best = rank > best ? rank : best;
  }
  return best;
}

PageRank rank_page(const SelectPagesArgs& args, int head, std::int32_t page, const float* q) {
  const SlotCacheView& cache = args.cache;
  const std::int32_t* position = cache.slot_position + slot_row(cache, head);
  const std::int32_t first = page * cache.page_size;
  const std::int32_t end = std::min(first + cache.page_size, cache.n_slots[head]);
  const std::int32_t newest = *std::max_element(position + first, position + end);
  if (newest < 0) return kNoTokens;
  if (newest > *args.position - args.read_window) return rank_of_age(*args.position - newest);
  float buffer[2 * kMaxHeadDim];
  const std::int64_t at = (static_cast<std::int64_t>(head) * cache.max_pages + page) * 2 * cache.head_dim;
  const float* bounds = as_floats(args.bounds, at, 2 * cache.head_dim, cache.dtype, buffer);
  return best_rank(q, bounds, args.n_heads / cache.n_kv_heads, cache.head_dim);
}

/// Leaves the pages that are read in `pages`, in ascending order.
void choose(const SelectPagesArgs& args, const PageRank* rank, std::int32_t n_in_use,
            std::vector<std::int32_t>& pages) {
  pages.clear();
  int n_forced = 0;
  for (std::int32_t page = 0; page < n_in_use; ++page) {
    if (rank[page] != kNoTokens) pages.push_back(page);
    n_forced += rank[page] > kBestScore;
  }
  const auto n_read = static_cast<std::size_t>(std::min(std::max(args.n_pages, n_forced), args.max_selected));
  if (pages.size() <= n_read) return;
  const auto comes_before = [&](std::int32_t a, std::int32_t b) {
    return rank[a] != rank[b] ? rank[a] > rank[b] : a < b;
  };
  std::nth_element(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(n_read), pages.end(), comes_before);
  pages.resize(n_read);
  std::sort(pages.begin(), pages.end());
}

void write_view(const SelectPagesArgs& args, int head, const std::vector<std::int32_t>& pages) {
  const SlotCacheView& cache = args.cache;
  const std::int64_t row = static_cast<std::int64_t>(head) * args.max_selected;
  const std::int32_t* from = cache.slot_position + slot_row(cache, head);
  std::int32_t* to = args.slot_position + row * cache.page_size;
  std::fill_n(args.selected + row, args.max_selected, -1);
  std::fill_n(args.page_table + row, args.max_selected, 0);
  std::fill_n(to, static_cast<std::int64_t>(args.max_selected) * cache.page_size, -1);
  std::int32_t n_slots = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::int32_t first = pages[i] * cache.page_size;
    const std::int32_t n = std::min(cache.page_size, cache.n_slots[head] - first);
    const auto at = static_cast<std::int32_t>(i) * cache.page_size;
    args.selected[row + static_cast<std::int64_t>(i)] = pages[i];
    args.page_table[row + static_cast<std::int64_t>(i)] =
        cache.page_table[static_cast<std::int64_t>(head) * cache.max_pages + pages[i]];
    std::copy_n(from + first, n, to + at);
    n_slots = at + n;
  }
  args.n_slots[head] = n_slots;
}

void select_head(const SelectPagesArgs& args, int head) {
  const SlotCacheView& cache = args.cache;
  thread_local std::vector<float> q_buffer;
  thread_local std::vector<std::int32_t> pages;
  const std::int64_t n = static_cast<std::int64_t>(args.n_heads / cache.n_kv_heads) * cache.head_dim;
  q_buffer.resize(n);
  const float* q = as_floats(args.q, head * n, n, cache.dtype, q_buffer.data());
  PageRank* rank = args.rank + static_cast<std::int64_t>(head) * cache.max_pages;
  const std::int32_t n_in_use = (cache.n_slots[head] + cache.page_size - 1) / cache.page_size;
  for (std::int32_t page = 0; page < n_in_use; ++page) rank[page] = rank_page(args, head, page, q);
  choose(args, rank, n_in_use, pages);
  write_view(args, head, pages);
}

}  // namespace

void select_pages(const SelectPagesArgs& args) {
  const SlotCacheView& cache = args.cache;
  const std::int64_t cost = 4L * cache.max_pages * cache.head_dim * (args.n_heads / cache.n_kv_heads);
  parallel_for(cache.n_kv_heads, cost, [&](std::int64_t head) { select_head(args, static_cast<int>(head)); });
}

}  // namespace kvscope::kernels::cpu
