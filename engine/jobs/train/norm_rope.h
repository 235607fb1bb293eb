#pragma once
// RMSNorm per head and rotation in one differentiable operation: what Qwen3 does to queries and keys.

#include <ATen/core/Tensor.h>

#include "engine/core/files/weights/rope_frequencies.h"

namespace kvscope::engine {

/// cos and sin of every position, made once. sin is negative in the first half of a head, so that
///
///     rope(y)[d] = y[d] * cos[d] + y[d'] * sin[d]      d' = d + D/2 or d - D/2
struct RotaryTable {
  at::Tensor cos, sin;  // [T, 1, D] float32
  static RotaryTable make(int n_positions, const RopeFrequencies& frequencies, at::Device device);
};

/// The rotation alone, x [B, T, H, D]; float32 inside, result like x. An own backward, as few launches as the way ahead has.
at::Tensor rope(const at::Tensor& x, const RotaryTable& table);

/// rope(x * rsqrt(mean(x^2) + eps) * gain), x [B, T, H, D], gain [D], table of at least T positions; result like x.
///
/// LibTorch's own RMSNorm starts a thread block a row; with rows of 64 numbers and a million rows a layer that took
/// more time than all matrix products, hence the own formula in few element-wise passes, and an own backward.
at::Tensor norm_rope(const at::Tensor& x, const at::Tensor& gain, const RotaryTable& table, double eps);

}  // namespace kvscope::engine
