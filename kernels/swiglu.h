#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// The gate of an MLP, row by row: out = silu(gate) * up, silu(x) = x / (1 + exp(-x)).
///
/// float32 inside, rounded once.
struct SwigluArgs {
  const void* gate_up;  // [n_rows, 2 dim]: gate, then up, as one product leaves them
  void* out;            // [n_rows, dim]; must not overlap gate_up
  std::int64_t n_rows;
  int dim;
  DType dtype;
};

KVSCOPE_OPERATION(swiglu, SwigluArgs);

}  // namespace kvscope::kernels
