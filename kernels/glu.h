#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

enum class GluActivation : std::uint8_t {
  silu = 0,       // x / (1 + exp(-x)): SwiGLU
  gelu_tanh = 1,  // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): GeGLU
  clamped = 2,    // gpt-oss: x' / (1 + exp(-kClampedAlpha x')), x' = min(x, kClampedLimit); up: see GluArgs
};

inline constexpr float kClampedLimit = 7, kClampedAlpha = 1.702f;

/// The gate of an MLP, row by row: out = activation(gate) * up (Shazeer, 2020, arXiv 2002.05202). Of `clamped` the factor is
/// 1 + up, with up limited to -kClampedLimit ... kClampedLimit.
///
/// float32 inside, rounded once.
struct GluArgs {
  const void* gate_up;  // [n_rows, 2 dim]: gate, then up, as one product leaves them
  void* out;            // [n_rows, dim]; must not overlap gate_up
  std::int64_t n_rows;
  int dim;
  GluActivation activation = GluActivation::silu;
  DType dtype;
};

KVSCOPE_OPERATION(glu, GluArgs);

}  // namespace kvscope::kernels
