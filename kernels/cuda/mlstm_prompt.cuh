#pragma once
// What the launches of mlstm_prompt.cu share: their parameters, and products of float32 tiles by 16 x 16 threads.

#include "kernels/mlstm_prompt.h"

namespace kvscope::kernels::mlstm_prompt_parts {

constexpr int kBlock = 128;    // tokens of one quadratic block
constexpr int kThreads = 256;  // 16 x 16: each has a share of a tile's rows and of its columns
constexpr int kSlice = 32;     // terms of a product that are in shared memory at a time
constexpr int kPad = 4;        // of a transposed slice: its rows stay 16-byte aligned

/// Where everything is. n tokens, numbered from 0; [heads, n, D] unless it says otherwise.
struct Params {
  MlstmScorerView s;
  const void *k, *v;
  long long k_stride, v_stride, first;
  int n, n_heads, n_blocks;
  float* score;                   // [heads, n]
  float *q_map, *k_map, *value;   // q~, k~, v~
  float *state, *state_z;         // [heads, blocks, D, D] and [heads, blocks, D]: before each block
  float *log_i, *log_f, *direct;  // [heads, n]
  float *decay, *weight, *greatest, *of_state, *of_end;  // [heads, n]: block_gates_kernel()
  float* carry;                                          // [heads, blocks]

  Params(const MlstmPromptArgs& args)
      : s(args.scorer),
        k(args.k),
        v(args.v),
        k_stride(args.k_stride),
        v_stride(args.v_stride),
        first(args.first),
        n(static_cast<int>(args.n)),
        n_heads(args.n_kv_heads),
        n_blocks((n + kBlock - 1) / kBlock),
        score(args.score) {
    float* next = args.scratch;
    const auto take = [&](long long of_head) {
      float* there = next;
      next += n_heads * of_head;
      return there;
    };
    const long long d = args.head_dim;
    for (float** rows : {&q_map, &k_map, &value}) *rows = take(n * d);
    state = take(n_blocks * d * d);
    state_z = take(n_blocks * d);
    for (float** row : {&log_i, &log_f, &direct, &decay, &weight, &greatest, &of_state, &of_end}) *row = take(n);
    carry = take(n_blocks);
  }
};

/// Which of a tile's rows or columns share `part` of 16 has as its i-th: runs of four, that all 16 parts read at once from
/// different banks.
__device__ inline int tile_index(int part, int i) { return i / 4 * 64 + part * 4 + i % 4; }

/// Loads a thread's kCount numbers of a row of a slice.
template <int kCount>
__device__ inline void load_part(const float* row, int part, float (&out)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(row + tile_index(part, i));
    out[i] = four.x, out[i + 1] = four.y, out[i + 2] = four.z, out[i + 3] = four.w;
  }
}

/// sum += a^T b over kSlice rows: a [kSlice, kAStride], b [kSlice, kBStride] in shared memory.
template <int kRows, int kColumns, int kAStride, int kBStride>
__device__ inline void multiply_slice(const float* a, const float* b, float (&sum)[kRows][kColumns]) {
  const int row_part = threadIdx.x / 16, column_part = threadIdx.x % 16;
#pragma unroll 4
  for (int i = 0; i < kSlice; ++i) {
    float left[kRows], right[kColumns];
    load_part(a + i * kAStride, row_part, left);
    load_part(b + i * kBStride, column_part, right);
#pragma unroll
    for (int row = 0; row < kRows; ++row)
#pragma unroll
      for (int column = 0; column < kColumns; ++column) sum[row][column] += left[row] * right[column];
  }
}

/// The sum or the greatest of the 16 threads that share rows, in each of them.
__device__ inline float sum_of_row(float x) {
#pragma unroll
  for (int offset = 8; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
__device__ inline float greatest_of_row(float x) {
#pragma unroll
  for (int offset = 8; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

}  // namespace kvscope::kernels::mlstm_prompt_parts
