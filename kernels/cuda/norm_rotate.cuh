#pragma once
// One head's row of queries or keys on its way into the cache, by one warp: norm, then rotation (rms_norm.h, rope.h).
// Serves admit_step and gate_score.

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kvscope::kernels {

/// buffer [kHeadDim] <- row, normed if there is a `weight`, which is added to `offset`; not rounded.
template <typename T, int kHeadDim>
__device__ void norm_row(const T* row, const T* weight, float eps, float offset, float* buffer) {
  const int lane = threadIdx.x % 32;
  float squares = 0;
  for (int i = lane; i < kHeadDim; i += 32) {
    const float x = to_float(row[i]);
    squares += x * x;
    buffer[i] = x;
  }
  if (weight) {
    const float inverse = rsqrtf(warp_sum(squares) / kHeadDim + eps);
    for (int i = lane; i < kHeadDim; i += 32) buffer[i] *= inverse * (offset + to_float(weight[i]));
  }
  __syncwarp();
}

/// Rotates buffer [kHeadDim] and rounds it: the result is exactly representable in T.
template <typename T, int kHeadDim>
__device__ void rotate_row(float* buffer, const float* inv_freq, float position, float attention_scaling) {
  constexpr int kHalf = kHeadDim / 2;
  for (int i = threadIdx.x % 32; i < kHalf; i += 32) {
    const float low = buffer[i], high = buffer[i + kHalf];
    float sine, cosine;
    // __fmul_rn: the product must be rounded to float32 before the sine is taken, as the reference does.
    const float frequency = inv_freq[i];
    sincosf(__fmul_rn(position, frequency), &sine, &cosine);
    if (frequency != 0) cosine *= attention_scaling, sine *= attention_scaling;
    buffer[i] = to_float(from_float<T>(low * cosine - high * sine));
    buffer[i + kHalf] = to_float(from_float<T>(high * cosine + low * sine));
  }
  __syncwarp();
}

}  // namespace kvscope::kernels
