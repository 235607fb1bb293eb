#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// out[i] = x[i], rounded to dtype: the residual stream, which is float32, on its way into a product without a norm before
/// it (OLMo 2 and 3).
struct RoundFloatsArgs {
  const float* x;  // [n]
  void* out;       // [n] dtype; must not overlap x
  std::int64_t n;
  DType dtype;
};

KVSCOPE_OPERATION(round_floats, RoundFloatsArgs);

}  // namespace kvscope::kernels
