#pragma once
// Rows of queries or keys on their way into the cache: norm, then rotation, as the references of rms_norm and rope do
// them in float32.

#include <vector>

#include "kernels/reference/element.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"

namespace kvscope::kernels::reference {

/// Rows [n_heads, head_dim] from element `first` of `data` on, normed where there is a `weight` [head_dim], which is
/// added to `offset`.
inline std::vector<float> normed_rows(const void* data, std::int64_t first, int n_heads, int head_dim,
                                      const void* weight, float eps, float offset, DType dtype) {
  std::vector<float> x(static_cast<std::size_t>(n_heads) * head_dim), w(head_dim);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(load(data, first + static_cast<std::int64_t>(i), dtype));
  }
  if (!weight) return x;
  for (int i = 0; i < head_dim; ++i) w[i] = static_cast<float>(load(weight, i, dtype));
  rms_norm({.x = x.data(),
            .weight = w.data(),
            .out = x.data(),
            .n_rows = n_heads,
            .x_stride = head_dim,
            .dim = head_dim,
            .eps = eps,
            .weight_offset = offset,
            .dtype = DType::f32});
  return x;
}

/// Rotates x [n_heads, head_dim] of one token.
inline void rotate_rows(std::vector<float>& x, const std::int32_t* position, const float* inv_freq, int head_dim,
                        float attention_scaling) {
  rope({.x = x.data(),
        .positions = position,
        .inv_freq = inv_freq,
        .n_tokens = 1,
        .n_heads = static_cast<int>(x.size()) / head_dim,
        .head_dim = head_dim,
        .attention_scaling = attention_scaling,
        .dtype = DType::f32});
}

}  // namespace kvscope::kernels::reference
