#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/round_floats.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 256;

// A thread has one number.
template <typename T>
__global__ void __launch_bounds__(kThreads) round_floats_kernel(RoundFloatsArgs args) {
  let_next_start();
  wait_for_previous();
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < args.n) static_cast<T*>(args.out)[i] = from_float<T>(args.x[i]);
}

}  // namespace

void cuda::round_floats(const RoundFloatsArgs& args, Stream stream) {
  const auto n_blocks = static_cast<unsigned>((args.n + kThreads - 1) / kThreads);
  dispatch_dtype(args.dtype, [&]<typename T>() {
    launch_dependent(round_floats_kernel<T>, dim3(n_blocks), kThreads, 0, stream, args);
  });
}

}  // namespace kvscope::kernels
