#pragma once

namespace kvscope::kernels {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }
__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.707106781f)); }
/// x / 2 (1 + tanh(u)) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
__device__ inline float gelu_tanh(float x) { return x / (1.0f + expf(-1.59576912f * (x + 0.044715f * x * x * x))); }

}  // namespace kvscope::kernels
