#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// A branch of a layer through the norm after it (rms_norm.h), added to the residual stream, row by row:
///
///     residual += x / sqrt(mean(x^2) + eps) * (weight_offset + weight)
///
/// After Gemma 2 (Gemma Team, 2024), which has norms after attention and MLP. float32 throughout.
struct AddNormArgs {
  const float* x;      // [n_rows, dim]
  const void* weight;  // [dim] dtype
  float* residual;     // [n_rows, dim] in and out; must not overlap x
  std::int64_t n_rows;
  int dim;  // 1 ... 16384
  float eps;
  float weight_offset = 0;
  DType dtype;
};

KVSCOPE_OPERATION(add_norm, AddNormArgs);

}  // namespace kvscope::kernels
