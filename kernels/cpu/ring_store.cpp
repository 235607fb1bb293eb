#include "kernels/ring_store.h"

#include <cstring>

namespace kvscope::kernels::cpu {

void ring_store(const RingStoreArgs& args) {
  const std::int64_t row = *args.position % args.n_rows;
  std::memcpy(static_cast<char*>(args.ring) + row * args.row_bytes, args.row, args.row_bytes);
}

}  // namespace kvscope::kernels::cpu
