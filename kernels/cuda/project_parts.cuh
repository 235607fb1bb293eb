#pragma once
// What the products of few tokens (project.cu) and of many (project_many.cuh) have in common: the norm before them, what
// becomes of a sum, and the order in which the parts of a sum are added up. A token so has the same bits in both.

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/project.h"

namespace kvscope::kernels {
namespace project_parts {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kUnitColumns = 128;  // columns that a warp takes at a time: two lines of 128 bytes in each row

/// Writes what becomes of y = sums of rows row ... (gate and up for SwiGLU) of one token.
template <typename T>
__device__ inline void finish(const ProjectArgs& args, int token, long long row, float y, float up) {
  const float biased = y + (args.bias ? to_float(static_cast<const T*>(args.bias)[row]) : 0.0f);
  switch (args.epilogue) {
    case Epilogue::store:
      static_cast<T*>(args.out)[token * args.n_rows + row] = from_float<T>(biased);
      return;
    case Epilogue::add:
      static_cast<float*>(args.out)[token * args.n_rows + row] += args.bias ? biased : y;
      return;
    case Epilogue::swiglu:
      static_cast<T*>(args.out)[token * (args.n_rows / 2) + row] = from_float<T>(y / (1.0f + expf(-y)) * up);
      return;
    case Epilogue::geglu:
      static_cast<T*>(args.out)[token * (args.n_rows / 2) + row] = from_float<T>(gelu_tanh(y) * up);
      return;
    case Epilogue::logits:
      static_cast<float*>(args.out)[token * args.n_rows + row] = args.bias ? biased : y;
      return;
    case Epilogue::silu:
      static_cast<T*>(args.out)[token * args.n_rows + row] = from_float<T>(silu(biased));
      return;
    case Epilogue::sigmoid:
      static_cast<float*>(args.out)[token * args.n_rows + row] = 1.0f / (1.0f + expf(-biased));
      return;
    case Epilogue::gelu:
      static_cast<T*>(args.out)[token * args.n_rows + row] = from_float<T>(gelu(biased));
      return;
  }
}

/// part(first) + ... + part(first + kN - 1) as a binary tree: its halves, quarters and eighths can be summed elsewhere.
template <int kN, typename Part>
__device__ inline float tree_sum(const Part& part, int first = 0) {
  if constexpr (kN == 1) {
    return part(first);
  } else {
    return tree_sum<kN / 2>(part, first) + tree_sum<kN / 2>(part, first + kN / 2);
  }
}

/// x and its norm weight in registers, so that a norm reads x once and its weight before x is there.
template <typename T>
struct NormRow {
  static constexpr int kPerThread = 4;  // of four columns each: rows up to 8192 long
  float4 x[kPerThread], weight[kPerThread];

  __device__ static bool fits(const ProjectArgs& args) {
    return args.norm_weight && args.dim % 4 == 0 && args.dim <= 4 * kPerThread * kThreads;
  }
  __device__ void load_weight(const ProjectArgs& args) {
    const T* data = static_cast<const T*>(args.norm_weight);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int c = 4 * (i * kThreads + threadIdx.x);
      if (c >= args.dim) break;
      const float offset = args.norm_offset;
      weight[i] = {offset + to_float(data[c]), offset + to_float(data[c + 1]), offset + to_float(data[c + 2]),
                   offset + to_float(data[c + 3])};
    }
  }
  __device__ void norm(const ProjectArgs& args, int token, T* out, float* sums) {
    const float* data = static_cast<const float*>(args.x) + static_cast<long long>(token) * args.dim;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int c = 4 * (i * kThreads + threadIdx.x);
      if (c >= args.dim) break;
      x[i] = {data[c], data[c + 1], data[c + 2], data[c + 3]};
      squares += x[i].x * x[i].x + x[i].y * x[i].y + x[i].z * x[i].z + x[i].w * x[i].w;
    }
    __syncthreads();  // sums of the token before have been read
    const float inverse = rsqrtf(block_sum<kThreads>(squares, sums) / static_cast<float>(args.dim) + args.eps);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int c = 4 * (i * kThreads + threadIdx.x);
      if (c >= args.dim) break;
      out[c] = from_float<T>(x[i].x * inverse * weight[i].x);
      out[c + 1] = from_float<T>(x[i].y * inverse * weight[i].y);
      out[c + 2] = from_float<T>(x[i].z * inverse * weight[i].z);
      out[c + 3] = from_float<T>(x[i].w * inverse * weight[i].w);
    }
  }
};

/// The same for rows of any length: x is read twice.
template <typename T>
__device__ void norm_long_row(const ProjectArgs& args, int token, T* out, float* sums) {
  const float* x = static_cast<const float*>(args.x) + static_cast<long long>(token) * args.dim;
  const T* weight = static_cast<const T*>(args.norm_weight);
  float squares = 0;
  for (int c = threadIdx.x; c < args.dim; c += kThreads) squares += x[c] * x[c];
  __syncthreads();  // sums of the token before have been read
  const float inverse = rsqrtf(block_sum<kThreads>(squares, sums) / static_cast<float>(args.dim) + args.eps);
  for (int c = threadIdx.x; c < args.dim; c += kThreads)
    out[c] = from_float<T>(x[c] * inverse * (args.norm_offset + to_float(weight[c])));
}

}  // namespace project_parts
}  // namespace kvscope::kernels
