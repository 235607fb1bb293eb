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
  check.pointers({{"cache.n_slots", args.cache.n_slots},
                  {"q", args.q},
                  {"bounds", args.bounds},
                  {"position", args.position},
                  {"rank", args.rank},
                  {"page_table", args.page_table},
                  {"slot_position", args.slot_position},
                  {"n_slots", args.n_slots},
                  {"selected", args.selected}});
  KVSCOPE_RUN(select_pages, args, place);
}

}  // namespace kvscope::kernels
