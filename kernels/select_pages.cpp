#include "kernels/select_pages.h"

#include <algorithm>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void select_pages(const SelectPagesArgs& args, Place place) {
  const ArgumentCheck check("select_pages");
  check.keys(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.range("n_pages", args.n_pages, 1, kMaxTokens);
  check.range("read_window", args.read_window, 1, kMaxTokens);
  check.range("max_selected", args.max_selected, std::min(args.n_pages, args.cache.max_pages),
              kMaxTokens / args.cache.page_size);
  check.pointer("cache.n_slots", args.cache.n_slots);
  check.pointer("q", args.q);
  check.pointer("bounds", args.bounds);
  check.pointer("position", args.position);
  check.pointer("rank", args.rank);
  check.pointer("page_table", args.page_table);
  check.pointer("slot_position", args.slot_position);
  check.pointer("n_slots", args.n_slots);
  check.pointer("selected", args.selected);
  KVSCOPE_RUN(select_pages, args, place);
}

}  // namespace kvscope::kernels
