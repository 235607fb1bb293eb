#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// Copies one token's row over that of the token n_rows before it, so that the ring holds the rows of the last n_rows
/// tokens (queries of a window, say):
///
///     ring[*position % n_rows] <- row
///
/// Bytes, whatever they mean. On CUDA row and ring start at multiples of 16 bytes. `row` must not lie in the ring.
struct RingStoreArgs {
  const void* row;               // [row_bytes]
  void* ring;                    // [n_rows, row_bytes]
  const std::int32_t* position;  // one number >= 0
  std::int64_t row_bytes;        // 16 ... 2^31, a multiple of 16
  int n_rows;
};

/// The position is read on the device, so that one captured launch serves every step.
KVSCOPE_OPERATION(ring_store, RingStoreArgs);

}  // namespace kvscope::kernels
