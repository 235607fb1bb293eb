#include "kernels/cuda/check.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/rms_norm.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 256;

// Rows of whole 16-byte chunks, each with kRowThreads threads: 32, or all of the block. x and out may be the same
// memory, hence no __restrict__: each thread reads an element once more just before it writes it.
template <typename T, int kRowThreads>
__global__ void rms_norm_kernel(const T* x, const T* weight, T* out, long long n_rows, long long x_stride,
                                long long out_stride, int dim, float eps, float weight_offset) {
  constexpr int kRowsPerBlock = kThreads / kRowThreads;
  __shared__ float partial[kThreads / 32];
  const long long row = static_cast<long long>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kRowThreads;
  if (row >= n_rows) return;  // whole warps, and never where the block is one row
  x += row * x_stride;
  out += row * out_stride;
  const int first = threadIdx.x % kRowThreads, n_chunks = dim / Chunk<T>::kSize;
  float sum = 0;
  for (int c = first; c < n_chunks; c += kRowThreads) {
    const Chunk<T> chunk = load_chunk(x + c * Chunk<T>::kSize);
#pragma unroll
    for (int j = 0; j < Chunk<T>::kSize; ++j) sum += to_float(chunk.element[j]) * to_float(chunk.element[j]);
  }
  if constexpr (kRowThreads == 32) {
    sum = warp_sum(sum);
  } else {
    sum = block_sum<kThreads>(sum, partial);
  }
  const float inverse = 1 / sqrtf(sum / static_cast<float>(dim) + eps);
  for (int c = first; c < n_chunks; c += kRowThreads) {
    Chunk<T> chunk = load_chunk(x + c * Chunk<T>::kSize);
    const Chunk<T> scale = load_chunk(weight + c * Chunk<T>::kSize);
#pragma unroll
    for (int j = 0; j < Chunk<T>::kSize; ++j) {
      chunk.element[j] =
          from_float<T>(to_float(chunk.element[j]) * inverse * (weight_offset + to_float(scale.element[j])));
    }
    store_chunk(out + c * Chunk<T>::kSize, chunk);
  }
}

// One block per row, element by element, for rows that do not begin at multiples of 16 bytes.
template <typename T>
__global__ void rms_norm_any_kernel(const T* x, const T* weight, T* out, long long x_stride, long long out_stride,
                                    int dim, float eps, float weight_offset) {
  __shared__ float partial[kThreads / 32];
  x += blockIdx.x * x_stride;
  out += blockIdx.x * out_stride;
  float sum = 0;
  for (int i = threadIdx.x; i < dim; i += kThreads) {
    const float value = to_float(x[i]);
    sum += value * value;
  }
  sum = block_sum<kThreads>(sum, partial);
  const float inverse = 1 / sqrtf(sum / static_cast<float>(dim) + eps);
  for (int i = threadIdx.x; i < dim; i += kThreads) {
    out[i] = from_float<T>(to_float(x[i]) * inverse * (weight_offset + to_float(weight[i])));
  }
}

bool begins_at_16(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

}  // namespace

void cuda::rms_norm(const RmsNormArgs& args, Stream stream) {
  constexpr int kShortRow = 512;  // a warp is enough
  dispatch_dtype(args.dtype, [&]<typename T>() {
    const T *x = static_cast<const T*>(args.x), *weight = static_cast<const T*>(args.weight);
    T* out = static_cast<T*>(args.out);
    const auto n_rows = static_cast<unsigned>(args.n_rows);
    const long long out_stride = args.stride_of_out();
    const bool aligned = begins_at_16(x) && begins_at_16(weight) && begins_at_16(out) &&
                         args.x_stride % Chunk<T>::kSize == 0 && out_stride % Chunk<T>::kSize == 0 &&
                         args.dim % Chunk<T>::kSize == 0;
    if (!aligned) {
      rms_norm_any_kernel<T><<<n_rows, kThreads, 0, stream>>>(x, weight, out, args.x_stride, out_stride, args.dim,
                                                              args.eps, args.weight_offset);
    } else if (args.dim <= kShortRow) {
      constexpr unsigned kRowsPerBlock = kThreads / 32;
      rms_norm_kernel<T, 32><<<(n_rows + kRowsPerBlock - 1) / kRowsPerBlock, kThreads, 0, stream>>>(
          x, weight, out, args.n_rows, args.x_stride, out_stride, args.dim, args.eps, args.weight_offset);
    } else {
      rms_norm_kernel<T, kThreads><<<n_rows, kThreads, 0, stream>>>(x, weight, out, args.n_rows, args.x_stride,
                                                                    out_stride, args.dim, args.eps, args.weight_offset);
    }
  });
  check_launch();
}

}  // namespace kvscope::kernels
