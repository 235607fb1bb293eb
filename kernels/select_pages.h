#pragma once
#include "kernels/operation.h"
#include "kernels/rule/pages.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// Which pages of the cache one query token reads (Quest, Tang et al. 2024), per KV head:
///
///     score(page) = max over the query heads h of the group of sum_c max(q_h[c] low[c], q_h[c] high[c])
///
/// Pages without a token do not count. A page that holds a token of the last `read_window` positions (position >
/// *position - read_window) comes before all others, the one with the newest token first; then the scores decide, the
/// greatest first, of equal ones the lower page. Read are the first n_pages of that order, or all of the read window if
/// that is more, or all there are if that is less; never more than max_selected. The window's pages count towards
/// n_pages. While tokens lie in order it is at most ceil(read_window / page_size) + 1 pages; where slots are reused it
/// may be read_window of them. The three back ends take the same pages, bit for bit (rule/pages.h).
///
/// What comes out is a slot cache of its own, in ascending order of pages and in the same pools: decode_attention runs
/// on selected_view(args). With as many columns (max_selected = max_pages), all pages read and none of them empty, it
/// is the cache itself.
struct SelectPagesArgs {
  SlotCacheView cache;
  const void* q;                 // [n_heads, head_dim] post-RoPE, cache.dtype
  const void* bounds;            // [n_kv_heads, max_pages, 2, head_dim] cache.dtype, from page_bounds
  const std::int32_t* position;  // one number, the newest token's
  int n_heads;
  int n_pages;                  // >= 1
  int read_window;              // >= 1: at least the page of the newest token
  int max_selected;             // columns of what follows, >= min(n_pages, max_pages)
  PageRank* rank;               // [n_kv_heads, max_pages] scratch; holds the ranks of the pages in use afterwards
  std::int32_t* page_table;     // [n_kv_heads, max_selected] out; 0 behind the last
  std::int32_t* slot_position;  // [n_kv_heads, max_selected * page_size] out; -1 past n_slots of the cache and behind
  std::int32_t* n_slots;        // [n_kv_heads] out; ends with the last page or, if the cache does, within it
  std::int32_t* selected;       // [n_kv_heads, max_selected] out: pages of the cache; -1 behind the last
};

/// The selected pages as decode_attention wants them. Not to be appended to: it has no priorities, and its positions
/// are copies.
inline SlotCacheView selected_view(const SelectPagesArgs& args) {
  SlotCacheView view = args.cache;
  view.page_table = args.page_table;
  view.slot_position = args.slot_position;
  view.n_slots = args.n_slots;
  view.slot_priority = nullptr;
  view.max_pages = args.max_selected;
  return view;
}

/// Reads n_slots and the position on the device: no host synchronisation, no allocation, launch shape fixed by
/// max_pages. Throws std::invalid_argument for a head_dim other than 64, 80, 96, 128, 192, 256 or (CUDA) more than 32768
/// pages a head, CudaError if the launch fails.
KVSCOPE_OPERATION(select_pages, SelectPagesArgs);

}  // namespace kvscope::kernels
