#pragma once
// Sums over a block in a fixed order: the same bits every time.

namespace kvscope::kernels {

constexpr unsigned kFullWarp = 0xffffffffu;

__device__ inline float warp_sum(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  return x;
}

__device__ inline float warp_max(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, offset));
  return x;
}

/// Sum over a block of kThreads (a multiple of 32), known to every thread. All threads must call it, the block must
/// have been synchronised since the last call that used the same `shared` ([kThreads / 32] floats).
template <int kThreads>
__device__ inline float block_sum(float x, float* shared) {
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) sum += shared[i];
  return sum;
}

}  // namespace kvscope::kernels
