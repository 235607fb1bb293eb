#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// Root-mean-square norm of each row: out = x / sqrt(mean(x^2) + eps) * (weight_offset + weight).
///
/// The mean and the product with 1/sqrt are float32 whatever the dtype; the result is rounded once.
struct RmsNormArgs {
  const void* x;       // [n_rows, dim], row i at x + i * x_stride elements
  const void* weight;  // [dim]
  void* out;           // [n_rows, dim], row i at out + i * out_stride; may be x if both strides are the same
  std::int64_t n_rows;
  std::int64_t x_stride;        // elements between rows of x
  std::int64_t out_stride = 0;  // elements between rows of out; 0: dim
  int dim;                      // 1 ... 16384
  float eps;
  float weight_offset = 0;  // 1 where a file holds what is to be added to 1 (Gemma)
  DType dtype;              // of x, weight and out
  std::int64_t stride_of_out() const { return out_stride > 0 ? out_stride : dim; }
};

KVSCOPE_OPERATION(rms_norm, RmsNormArgs);

}  // namespace kvscope::kernels
