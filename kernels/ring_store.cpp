#include "kernels/ring_store.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void ring_store(const RingStoreArgs& args, Place place) {
  const ArgumentCheck check("ring_store");
  check.range("row_bytes", args.row_bytes, 16, std::int64_t{1} << 31);
  check.multiple("row_bytes", args.row_bytes, 16, "a multiple of 16");
  check.range("n_rows", args.n_rows, 1, kMaxTokens);
  check.pointers({{"row", args.row}, {"ring", args.ring}, {"position", args.position}});
  KVSCOPE_RUN(ring_store, args, place);
}

}  // namespace kvscope::kernels
