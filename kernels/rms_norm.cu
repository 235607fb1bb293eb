#include "kernels/cuda/check.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/rms_norm.h"
#include "kernels/validate.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 256;

// One block per row. x and out may be the same memory, hence no __restrict__: each thread reads an element once more
// just before it writes it.
template <typename T>
__global__ void rms_norm_kernel(const T* x, const T* weight, T* out, long long x_stride, int dim, float eps) {
  __shared__ float partial[kThreads / 32];
  x += blockIdx.x * x_stride;
  out += static_cast<long long>(blockIdx.x) * dim;
  float sum = 0;
  for (int i = threadIdx.x; i < dim; i += kThreads) {
    const float value = to_float(x[i]);
    sum += value * value;
  }
  sum = block_sum<kThreads>(sum, partial);
  const float inverse = 1 / sqrtf(sum / static_cast<float>(dim) + eps);
  for (int i = threadIdx.x; i < dim; i += kThreads) {
    out[i] = from_float<T>(to_float(x[i]) * inverse * to_float(weight[i]));
  }
}

}  // namespace

void rms_norm(const RmsNormArgs& args, Stream stream) {
  validate(args);
  if (args.n_rows == 0) return;
  dispatch_dtype(args.dtype, [&]<typename T>() {
    rms_norm_kernel<T><<<static_cast<unsigned>(args.n_rows), kThreads, 0, stream>>>(
        static_cast<const T*>(args.x), static_cast<const T*>(args.weight), static_cast<T*>(args.out), args.x_stride,
        args.dim, args.eps);
  });
  check_launch();
}

}  // namespace kvscope::kernels
