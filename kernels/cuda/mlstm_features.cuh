#pragma once
// From keys and values to what the mLSTM scorer makes of each token: q~, k~, v~ and the three gates (kvpop_scorer.h).

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/mlstm_prompt.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kvscope::kernels::mlstm_prompt_parts {

constexpr int kTokens = 128;  // of a block of threads here

/// x[row] of a token: its key, then its value.
template <typename T, int kHeadDim>
__device__ inline float input(const Params& p, int head, int token, int row) {
  if (token >= p.n) return 0;
  const bool is_key = row < kHeadDim;
  const T* data = static_cast<const T*>(is_key ? p.k : p.v);
  return to_float(data[token * (is_key ? p.k_stride : p.v_stride) + head * kHeadDim + (is_key ? row : row - kHeadDim)]);
}

/// log i, log f and the direct part of the score: a warp a token. Rows of W have kStride numbers, gates last.
template <typename T, int kHeadDim, int kStride>
__device__ void gates(const Params& p, int head) {
  constexpr int kInputs = 2 * kHeadDim, kPerLane = kInputs / 32;
  __shared__ float weight[3][kInputs];
  const float* from = p.s.project + static_cast<long long>(head) * kInputs * kStride + kStride - 3;
  for (int i = threadIdx.x; i < 3 * kInputs; i += kThreads) weight[i % 3][i / 3] = from[i / 3 * kStride + i % 3];
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = warp; i < kTokens; i += kThreads / 32) {
    const int token = blockIdx.x * kTokens + i;
    if (token >= p.n) return;
    float x[kPerLane], sum[3] = {};
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) x[j] = input<T, kHeadDim>(p, head, token, lane + 32 * j);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      for (int gate = 0; gate < 3; ++gate) sum[gate] += x[j] * weight[gate][lane + 32 * j];
    for (int gate = 0; gate < 3; ++gate) {
      sum[gate] = warp_sum(sum[gate]) + p.s.bias[head * 3 + gate];
      if (p.s.soft_cap > 0 && gate < 2) sum[gate] = tanhf(sum[gate] / p.s.soft_cap) * p.s.soft_cap;
    }
    if (lane != 0) continue;
    const long long at = static_cast<long long>(head) * p.n + token;
    p.log_i[at] = sum[0];
    p.log_f[at] = fminf(sum[1], 0.0f) - log1pf(expf(-fabsf(sum[1])));  // log sigmoid
    p.direct[at] = sum[2];
  }
}

/// softmax(y), and with two sides then softmax(-y), of the columns that 16 threads have of a row.
template <int kSides, int kColumns>
__device__ inline void store_map(const float (&y)[kColumns], int part, bool is_there, float* out) {
#pragma unroll
  for (int side = 0; side < kSides; ++side) {
    const float sign = side == 0 ? 1.0f : -1.0f;
    float greatest = -INFINITY, sum = 0, exps[kColumns];
    for (int i = 0; i < kColumns; ++i) greatest = fmaxf(greatest, sign * y[i]);
    greatest = greatest_of_row(greatest);
    for (int i = 0; i < kColumns; ++i) sum += exps[i] = expf(sign * y[i] - greatest);
    sum = sum_of_row(sum);
    if (!is_there) continue;
    for (int i = 0; i < kColumns; ++i) out[(side * 16 + part) * kColumns + i] = exps[i] / sum;
  }
}

/// kSlice rows of x of all tokens of a block, 16 bytes at a time: keys for the first half of the rows, then values. Lanes take
/// different tokens, so that they write to different banks.
template <typename T, int kHeadDim>
__device__ inline void load_inputs(const Params& p, int head, int first, float (&x)[kSlice][kTokens + kPad]) {
  constexpr int kSize = Chunk<T>::kSize;
  const bool is_key = first < kHeadDim;
  const T* data = static_cast<const T*>(is_key ? p.k : p.v) + head * kHeadDim + (is_key ? first : first - kHeadDim);
  const long long stride = is_key ? p.k_stride : p.v_stride;
  for (int i = threadIdx.x; i < kTokens * (kSlice / kSize); i += kThreads) {
    const int token = blockIdx.x * kTokens + i % kTokens, row = i / kTokens * kSize;
    Chunk<T> chunk = {};
    if (token < p.n) chunk = load_chunk(data + token * stride + row);
#pragma unroll
    for (int j = 0; j < kSize; ++j) x[row + j][i % kTokens] = to_float(chunk.element[j]);
  }
}

/// Columns of W_q, and of W_k, of which a block of features_kernel() has one and the same number of W_v's.
template <int kHeadDim, bool kSoftmaxMap>
constexpr int kMapWidth = kSoftmaxMap ? kHeadDim : kHeadDim / 2;
/// Of features_kernel(): q~, k~, v~ by so many columns at a time, and the gates.
template <int kHeadDim, bool kSoftmaxMap>
constexpr int kKinds = 3 + kHeadDim / kMapWidth<kHeadDim, kSoftmaxMap>;

/// Grid: tokens / 128, heads, and 0: q~, 1: k~, 2 and with the Hedgehog map 3: v~, last: gates.
template <typename T, int kHeadDim, bool kSoftmaxMap>
__global__ __launch_bounds__(kThreads) void features_kernel(const __grid_constant__ Params p) {
  constexpr int kWidth = kMapWidth<kHeadDim, kSoftmaxMap>, kInputs = 2 * kHeadDim, kStride = 2 * kWidth + kHeadDim + 3,
                kColumns = kWidth / 16;
  __shared__ alignas(16) float x[kSlice][kTokens + kPad];
  __shared__ alignas(16) float w[kSlice][kWidth];
  const int head = blockIdx.y, kind = blockIdx.z, row_part = threadIdx.x / 16, part = threadIdx.x % 16;
  if (kind == kKinds<kHeadDim, kSoftmaxMap> - 1) return gates<T, kHeadDim, kStride>(p, head);
  const float* weight = p.s.project + static_cast<long long>(head) * kInputs * kStride + kind * kWidth;
  float y[8][kColumns] = {};
  for (int first = 0; first < kInputs; first += kSlice) {
    load_inputs<T, kHeadDim>(p, head, first, x);
    for (int i = threadIdx.x; i < kSlice * kWidth; i += kThreads)
      w[i / kWidth][i % kWidth] = weight[(first + i / kWidth) * kStride + i % kWidth];
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < kSlice; ++i) {
      float left[8], right[kColumns];
      load_part(&x[i][0], row_part, left);
#pragma unroll
      for (int column = 0; column < kColumns; ++column) right[column] = w[i][part * kColumns + column];
#pragma unroll
      for (int row = 0; row < 8; ++row)
#pragma unroll
        for (int column = 0; column < kColumns; ++column) y[row][column] += left[row] * right[column];
    }
    __syncthreads();
  }
#pragma unroll
  for (int row = 0; row < 8; ++row) {
    const int token = blockIdx.x * kTokens + tile_index(row_part, row);
    float* out = (kind == 0   ? p.q_map
                  : kind == 1 ? p.k_map
                              : p.value) +
                 (static_cast<long long>(head) * p.n + token) * kHeadDim;
    if (kind < 2) {
      store_map<kSoftmaxMap ? 1 : 2>(y[row], part, token < p.n, out);
    } else if (token < p.n) {
      for (int i = 0; i < kColumns; ++i) out[(kind - 2) * kWidth + part * kColumns + i] = y[row][i];
    }
  }
}

}  // namespace kvscope::kernels::mlstm_prompt_parts
