#include "kernels/page_bounds.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void page_bounds(const PageBoundsArgs& args, Place place) {
  const ArgumentCheck check("page_bounds");
  check.keys(args.cache);
  check.pointers({{"cache.n_slots", args.cache.n_slots}, {"bounds", args.bounds}});
  KVSCOPE_RUN(page_bounds, args, place);
}

}  // namespace kvscope::kernels
