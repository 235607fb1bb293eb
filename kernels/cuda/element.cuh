#pragma once
// Elements in device memory: conversion to float and 16-byte rows.

#include <cuda_bf16.h>

namespace kvscope::kernels {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// Sixteen bytes of elements, moved by one instruction. The address must be a multiple of 16.
template <typename T>
struct alignas(16) Chunk {
  static constexpr int kSize = 16 / sizeof(T);
  T element[kSize];
};

template <typename T>
__device__ inline Chunk<T> load_chunk(const T* address) {
  const uint4 bits = *reinterpret_cast<const uint4*>(address);
  Chunk<T> chunk;
  *reinterpret_cast<uint4*>(chunk.element) = bits;
  return chunk;
}

template <typename T>
__device__ inline void store_chunk(T* address, const Chunk<T>& chunk) {
  *reinterpret_cast<uint4*>(address) = *reinterpret_cast<const uint4*>(chunk.element);
}

/// Copies rows [first, first + kRows) of one head out of [n_tokens, n_heads, kHeadDim] to shared memory, row stride
/// kStride elements; rows from `end` on become zero (what lies there may be unwritten memory, and 0 * NaN is NaN). All
/// threads of the block take part; a __syncthreads() must follow.
template <int kRows, int kHeadDim, int kStride, typename T>
__device__ inline void load_tile(T* shared, const T* data, int first, int end, int head, int n_heads) {
  constexpr int kChunks = kHeadDim / Chunk<T>::kSize;
  for (int i = threadIdx.x; i < kRows * kChunks; i += blockDim.x) {
    const int row = i / kChunks;
    const int column = i % kChunks * Chunk<T>::kSize;
    Chunk<T> chunk = {};
    if (first + row < end) {
      chunk = load_chunk(data + (static_cast<long long>(first + row) * n_heads + head) * kHeadDim + column);
    }
    store_chunk(shared + row * kStride + column, chunk);
  }
}

}  // namespace kvscope::kernels
