#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/ring_store.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 128;

// One thread copies 16 bytes.
__global__ void ring_store_kernel(RingStoreArgs args) {
  let_next_start();
  wait_for_previous();
  const long long n = args.row_bytes / 16;
  const long long i = blockIdx.x * static_cast<long long>(kThreads) + threadIdx.x;
  if (i >= n) return;
  static_cast<uint4*>(args.ring)[*args.position % args.n_rows * n + i] = static_cast<const uint4*>(args.row)[i];
}

}  // namespace

void cuda::ring_store(const RingStoreArgs& args, Stream stream) {
  require_alignment("ring_store", "row", args.row);
  require_alignment("ring_store", "ring", args.ring);
  const std::int64_t n_blocks = (args.row_bytes / 16 + kThreads - 1) / kThreads;
  launch_dependent(ring_store_kernel, dim3(static_cast<unsigned>(n_blocks)), kThreads, 0, stream, args);
}

}  // namespace kvscope::kernels
