#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/ring_convolve.h"

namespace kvscope::kernels {
namespace {

constexpr int kUnits = 32;  // of a block: a warp reads their taps as one line
constexpr int kParts = 16;  // of the taps, a warp each: one thread for all would wait for its reads one after the other
constexpr int kThreads = kUnits * kParts;

// A block computes kUnits units: warp w adds taps w, w + kParts, ..., and the first warp adds the parts, in this order.
template <typename T>
__global__ void ring_convolve_kernel(RingConvolveArgs args) {
  __shared__ float part_sum[kParts][kUnits];
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x % kUnits, part = threadIdx.x / kUnits;
  const int unit = blockIdx.x * kUnits + lane, n = args.n_taps, dim = args.dim, p = *args.position;
  auto* ring = static_cast<T*>(args.ring);
  T now = from_float<T>(0.0f);
  float sum = 0;
  if (unit < dim) {
    now = static_cast<const T*>(args.row)[unit];
#pragma unroll 4
    for (int j = part; j < n; j += kParts) {
      const int t = p - n + 1 + j;
      if (t < 0) continue;
      // The row of token p is not in the ring yet for sure: another warp writes it.
      const T x = j == n - 1 ? now : ring[static_cast<long long>(t % n) * dim + unit];
      sum += args.taps[static_cast<long long>(j) * dim + unit] * to_float(x);
    }
  }
  part_sum[part][lane] = sum;
  __syncthreads();
  if (part > 0 || unit >= dim) return;
  for (int i = 1; i < kParts; ++i) sum += part_sum[i][lane];
  ring[static_cast<long long>(p % n) * dim + unit] = now;
  static_cast<T*>(args.out)[unit] = from_float<T>(sum);
}

}  // namespace

void cuda::ring_convolve(const RingConvolveArgs& args, Stream stream) {
  const auto n_blocks = static_cast<unsigned>((args.dim + kUnits - 1) / kUnits);
  dispatch_dtype(args.dtype, [&]<typename T>() {
    launch_dependent(ring_convolve_kernel<T>, dim3(n_blocks), kThreads, 0, stream, args);
  });
}

}  // namespace kvscope::kernels
