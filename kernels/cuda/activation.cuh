#pragma once
#include "kernels/glu.h"

namespace kvscope::kernels {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }
__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.707106781f)); }
/// x / 2 (1 + tanh(u)) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
__device__ inline float gelu_tanh(float x) { return x / (1.0f + expf(-1.59576912f * (x + 0.044715f * x * x * x))); }
/// What a gate makes of `up` (glu.h).
__device__ inline float gated(GluActivation activation, float x, float up) {
  if (activation == GluActivation::silu) return silu(x) * up;
  if (activation == GluActivation::gelu_tanh) return gelu_tanh(x) * up;
  const float g = x > kClampedLimit ? kClampedLimit : x;
  const float u = up > kClampedLimit ? kClampedLimit : up < -kClampedLimit ? -kClampedLimit : up;
  return g * sigmoid(kClampedAlpha * g) * (1.0f + u);
}

}  // namespace kvscope::kernels
