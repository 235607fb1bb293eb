#include "kernels/cuda/check.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/rope.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxHalf = 128;

// One block per token; sine and cosine are computed once and serve all heads.
template <typename T>
__global__ void rope_kernel(T* x, const std::int32_t* positions, const float* inv_freq, int n_heads, int half,
                            float attention_scaling) {
  __shared__ float cosine[kMaxHalf];
  __shared__ float sine[kMaxHalf];
  for (int i = threadIdx.x; i < half; i += kThreads) {
    // __fmul_rn: the product must be rounded to float32 before the sine is taken, as the reference does.
    const float angle = __fmul_rn(static_cast<float>(positions[blockIdx.x]), inv_freq[i]);
    cosine[i] = inv_freq[i] == 0 ? 1 : cosf(angle) * attention_scaling;
    sine[i] = sinf(angle) * attention_scaling;
  }
  __syncthreads();
  x += static_cast<long long>(blockIdx.x) * n_heads * 2 * half;
  for (int i = threadIdx.x; i < n_heads * half; i += kThreads) {
    const int pair = i % half;
    T* row = x + static_cast<long long>(i / half) * 2 * half;
    const float low = to_float(row[pair]);
    const float high = to_float(row[pair + half]);
    row[pair] = from_float<T>(low * cosine[pair] - high * sine[pair]);
    row[pair + half] = from_float<T>(high * cosine[pair] + low * sine[pair]);
  }
}

}  // namespace

void cuda::rope(const RopeArgs& args, Stream stream) {
  dispatch_dtype(args.dtype, [&]<typename T>() {
    rope_kernel<T><<<static_cast<unsigned>(args.n_tokens), kThreads, 0, stream>>>(
        static_cast<T*>(args.x), args.positions, args.inv_freq, args.n_heads, args.head_dim / 2,
        args.attention_scaling);
  });
  check_launch();
}

}  // namespace kvscope::kernels
