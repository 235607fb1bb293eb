#include "kernels/add_norm.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 512;

// One block a row: a step has few of them.
template <typename T>
__global__ void __launch_bounds__(kThreads) add_norm_kernel(AddNormArgs args) {
  __shared__ float partial[kThreads / 32];
  const long long first = static_cast<long long>(blockIdx.x) * args.dim;
  const T* weight = static_cast<const T*>(args.weight);
  let_next_start();
  wait_for_previous();
  const float* x = args.x + first;
  float* residual = args.residual + first;
  float squares = 0;
  for (int i = threadIdx.x; i < args.dim; i += kThreads) squares += x[i] * x[i];
  const float inverse = rsqrtf(block_sum<kThreads>(squares, partial) / static_cast<float>(args.dim) + args.eps);
  for (int i = threadIdx.x; i < args.dim; i += kThreads)
    residual[i] += x[i] * inverse * (args.weight_offset + to_float(weight[i]));
}

}  // namespace

void cuda::add_norm(const AddNormArgs& args, Stream stream) {
  dispatch_dtype(args.dtype, [&]<typename T>() {
    launch_dependent(add_norm_kernel<T>, dim3(static_cast<unsigned>(args.n_rows)), kThreads, 0, stream, args);
  });
}

}  // namespace kvscope::kernels
