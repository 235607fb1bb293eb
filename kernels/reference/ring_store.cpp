#include "kernels/ring_store.h"

namespace kvscope::kernels::reference {

void ring_store(const RingStoreArgs& args) {
  for (std::int64_t i = 0; i < args.row_bytes; ++i) {
    const std::int64_t to = *args.position % args.n_rows * args.row_bytes + i;
    static_cast<char*>(args.ring)[to] = static_cast<const char*>(args.row)[i];
  }
}

}  // namespace kvscope::kernels::reference
