#include "kernels/cuda/check.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/lifetime_attention.h"
#include "kernels/validate.h"

// One block per (64 queries, query head). Tiles of 64 keys and values go through shared memory; softmax is online, in
// base 2 (logits are scaled by log2 e). A tile that no query of the block sees is passed over: at a small budget most
// of the lower triangle is never read. bfloat16 uses tensor cores, float32 the ordinary units.

namespace kvscope::kernels {
namespace {

constexpr float kLog2E = 1.44269504089f;
constexpr float kLn2 = 0.69314718056f;

struct Params {
  LifetimeAttentionArgs args;
  int group_size;
  float log2_scale;  // scale * log2(e)
};

/// Which queries and keys a block works on.
struct Block {
  int head, kv_head;
  int first_row;  // of q
  int end_row;    // one past the last that exists
  int first_q;    // position of first_row
  int end_key;    // one past the last key that the block's last query could see

  __device__ explicit Block(const Params& p) {
    head = blockIdx.y;
    kv_head = head / p.group_size;
    // Late queries see more keys: started first, they do not hold up the end of the grid.
    first_row = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTileRows;
    end_row = min(first_row + kTileRows, static_cast<int>(p.args.q_len));
    first_q = static_cast<int>(p.args.q_start) + first_row;
    end_key = static_cast<int>(p.args.q_start) + end_row;  // <= kv_len by contract
  }

  /// evict_at of key t; 0, which no query sees, for one past the end.
  __device__ int evict_at(const Params& p, int t) const {
    if (t >= end_key) return 0;
    return p.args.evict_at ? p.args.evict_at[kv_head * p.args.kv_len + t] : INT_MAX;
  }
};

/// Waits until the last tile has been used, then brings in evict_at of the tile at `first_key`. False, for all threads
/// alike, if no query of the block sees any key of it.
__device__ bool enter_tile(const Params& p, const Block& block, int first_key, int* shared_evict_at) {
  const int t = first_key + threadIdx.x;
  const bool mine = threadIdx.x < kTileRows;
  const int evict_at = mine ? block.evict_at(p, t) : 0;
  const bool seen = evict_at > max(block.first_q, t);
  if (!__syncthreads_or(mine && seen)) return false;
  if (mine) shared_evict_at[threadIdx.x] = evict_at;
  return true;
}

/// Online softmax of one row: exp2(x - shift) of each logit follows from what this returns.
struct RowState {
  float m = -INFINITY;
  float l = 0;
  float shift = 0;  // m, or 0 while nothing was seen: -inf - -inf would be NaN

  /// Takes in the maximum of a tile's row; returns the factor for what was summed before.
  __device__ float raise(float row_max) {
    const float m_new = fmaxf(m, row_max);
    shift = m_new == -INFINITY ? 0.0f : m_new;
    const float correction = exp2f(m - shift);
    l *= correction;
    m = m_new;
    return correction;
  }
  __device__ float lse() const { return kLn2 * (m + log2f(l)); }  // -inf for a row that saw nothing
};

__device__ float inverse_or_zero(float l) { return l == 0 ? 0.0f : 1 / l; }

// --- float32
// ----------------------------------------------------------------------------------------------------------

constexpr int kWeightStride = kTileRows + 4;

template <int kHeadDim>
constexpr int kSharedBytesF32 = sizeof(float) * (2 * kTileElements<float, kHeadDim> + kTileRows * kWeightStride) +
                                sizeof(int) * kTileRows;

template <int kHeadDim>
__global__ void __launch_bounds__(kThreadsF32) lifetime_attention_f32_kernel(Params p) {
  constexpr int kStride = kTileStride<float, kHeadDim>;
  constexpr int kFeatures = kHeadDim / 16;  // of a row, a thread: tx, tx + 16, ...
  extern __shared__ __align__(16) char shared[];
  float* q = reinterpret_cast<float*>(shared);          // [kTileRows, kStride]
  float* kv = q + kTileElements<float, kHeadDim>;       // keys, then values
  float* weight = kv + kTileElements<float, kHeadDim>;  // [kTileRows, kWeightStride]
  int* evict_at = reinterpret_cast<int*>(weight + kTileRows * kWeightStride);

  const Block block(p);
  const LifetimeAttentionArgs& args = p.args;
  const int tx = threadIdx.x % 16;
  const int ty = threadIdx.x / 16;
  const auto* k_data = static_cast<const float*>(args.k);
  const auto* v_data = static_cast<const float*>(args.v);
  load_tile<kTileRows, kHeadDim, kStride>(q, static_cast<const float*>(args.q), block.first_row, block.end_row,
                                          block.head, args.n_heads);
  RowState state[4];
  float o[4][kFeatures] = {};

  for (int first_key = 0; first_key < block.end_key; first_key += kTileRows) {
    if (!enter_tile(p, block, first_key, evict_at)) continue;
    load_tile<kTileRows, kHeadDim, kStride>(kv, k_data, first_key, block.end_key, block.kv_head, args.n_kv_heads);
    __syncthreads();
    float s[4][4];
    tile_product<kHeadDim>(q, kv, s);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = block.first_q + ty + 16 * i;
      float row_max = -INFINITY;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int key = tx + 16 * j;
        const bool visible = first_key + key <= position && position < evict_at[key];
        s[i][j] = visible ? s[i][j] * p.log2_scale : -INFINITY;
        row_max = fmaxf(row_max, s[i][j]);
      }
      for (int lane = 8; lane > 0; lane /= 2) row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, lane));
      const float correction = state[i].raise(row_max);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float w = exp2f(s[i][j] - state[i].shift);
        state[i].l += w;  // of this thread's columns; the 16 threads of a row meet at the end
        weight[(ty + 16 * i) * kWeightStride + tx + 16 * j] = w;
      }
#pragma unroll
      for (int f = 0; f < kFeatures; ++f) o[i][f] *= correction;
    }
    __syncthreads();  // keys have been used, weights are written
    load_tile<kTileRows, kHeadDim, kStride>(kv, v_data, first_key, block.end_key, block.kv_head, args.n_kv_heads);
    __syncthreads();
#pragma unroll 4
    for (int key = 0; key < kTileRows; ++key) {
      float w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = weight[(ty + 16 * i) * kWeightStride + key];
#pragma unroll
      for (int f = 0; f < kFeatures; ++f) {
        const float v = kv[key * kStride + tx + 16 * f];
#pragma unroll
        for (int i = 0; i < 4; ++i) o[i][f] += w[i] * v;
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 4; ++i) {
    for (int lane = 8; lane > 0; lane /= 2) state[i].l += __shfl_xor_sync(0xffffffffu, state[i].l, lane);
    const int row = block.first_row + ty + 16 * i;
    if (row >= block.end_row) continue;
    const float inverse = inverse_or_zero(state[i].l);
    float* out = static_cast<float*>(args.o) + (static_cast<long long>(row) * args.n_heads + block.head) * kHeadDim;
#pragma unroll
    for (int f = 0; f < kFeatures; ++f) out[tx + 16 * f] = o[i][f] * inverse;
    if (args.lse && tx == 0) args.lse[block.head * args.q_len + row] = state[i].lse();
  }
}

// --- bfloat16
// ---------------------------------------------------------------------------------------------------------

template <int kHeadDim>
constexpr int kSharedBytesBf16 = sizeof(__nv_bfloat16) * 3 * kTileElements<__nv_bfloat16, kHeadDim> +
                                 sizeof(int) * kTileRows;

template <int kHeadDim>
__global__ void __launch_bounds__(kThreadsBf16) lifetime_attention_bf16_kernel(Params p) {
  using T = __nv_bfloat16;
  constexpr int kStride = kTileStride<T, kHeadDim>;
  extern __shared__ __align__(16) char shared[];
  T* q = reinterpret_cast<T*>(shared);  // [kTileRows, kStride], likewise k and v
  T* k = q + kTileElements<T, kHeadDim>;
  T* v = k + kTileElements<T, kHeadDim>;
  int* evict_at = reinterpret_cast<int*>(v + kTileElements<T, kHeadDim>);

  const Block block(p);
  const LifetimeAttentionArgs& args = p.args;
  const int lane = threadIdx.x % 32;
  const int my_row = threadIdx.x / 32 * 16 + lane / 4;  // and my_row + 8
  const int pair = lane % 4 * 2;                        // this thread's columns in each block of 8: pair, pair + 1
  load_tile<kTileRows, kHeadDim, kStride>(q, static_cast<const T*>(args.q), block.first_row, block.end_row, block.head,
                                          args.n_heads);
  __syncthreads();
  RowFragments<kHeadDim> q_rows;
  q_rows.load(q);
  RowState state[2];  // of rows my_row and my_row + 8
  float o[kHeadDim / 8][4] = {};

  for (int first_key = 0; first_key < block.end_key; first_key += kTileRows) {
    if (!enter_tile(p, block, first_key, evict_at)) continue;
    load_tile<kTileRows, kHeadDim, kStride>(k, static_cast<const T*>(args.k), first_key, block.end_key, block.kv_head,
                                            args.n_kv_heads);
    load_tile<kTileRows, kHeadDim, kStride>(v, static_cast<const T*>(args.v), first_key, block.end_key, block.kv_head,
                                            args.n_kv_heads);
    __syncthreads();
    float s[8][4];
    tile_product<kHeadDim>(q_rows, k, s);
    float row_max[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = 8 * n + pair + i % 2;
        const int position = block.first_q + my_row + i / 2 * 8;
        const bool visible = first_key + key <= position && position < evict_at[key];
        s[n][i] = visible ? s[n][i] * p.log2_scale : -INFINITY;
        row_max[i / 2] = fmaxf(row_max[i / 2], s[n][i]);
      }
    }
    float correction[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // the four threads of a row are neighbours
      row_max[half] = fmaxf(row_max[half], __shfl_xor_sync(0xffffffffu, row_max[half], 1));
      row_max[half] = fmaxf(row_max[half], __shfl_xor_sync(0xffffffffu, row_max[half], 2));
      correction[half] = state[half].raise(row_max[half]);
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] = exp2f(s[n][i] - state[i / 2].shift);
        state[i / 2].l += s[n][i];  // of this thread's columns
      }
    }
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[n][i] *= correction[i / 2];
    }
    add_weighted_rows<kHeadDim>(s, v, o);
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    state[half].l += __shfl_xor_sync(0xffffffffu, state[half].l, 1);
    state[half].l += __shfl_xor_sync(0xffffffffu, state[half].l, 2);
    const int row = block.first_row + my_row + 8 * half;
    if (row >= block.end_row) continue;
    const float inverse = inverse_or_zero(state[half].l);
    T* out = static_cast<T*>(args.o) + (static_cast<long long>(row) * args.n_heads + block.head) * kHeadDim + pair;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      *reinterpret_cast<__nv_bfloat162*>(out + 8 * n) =
          __floats2bfloat162_rn(o[n][2 * half] * inverse, o[n][2 * half + 1] * inverse);
    }
    if (args.lse && pair == 0) args.lse[block.head * args.q_len + row] = state[half].lse();
  }
}

/// Shared memory above 48 KiB has to be asked for, per kernel.
void launch(void (*kernel)(Params), dim3 grid, int threads, int shared_bytes, const Params& p, Stream stream) {
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  kernel<<<grid, threads, shared_bytes, stream>>>(p);
  check_launch();
}

}  // namespace

void lifetime_attention(const LifetimeAttentionArgs& args, Stream stream) {
  validate(args);
  if (args.q_len == 0) return;
  require_alignment("lifetime_attention", "q", args.q);
  require_alignment("lifetime_attention", "k", args.k);
  require_alignment("lifetime_attention", "v", args.v);
  require_alignment("lifetime_attention", "o", args.o);
  const Params p = {args, args.n_heads / args.n_kv_heads, args.scale * kLog2E};
  const dim3 grid(static_cast<unsigned>((args.q_len + kTileRows - 1) / kTileRows), args.n_heads);
  dispatch_head_dim("lifetime_attention", args.head_dim, [&]<int kHeadDim>() {
    if (args.dtype == DType::f32) {
      launch(lifetime_attention_f32_kernel<kHeadDim>, grid, kThreadsF32, kSharedBytesF32<kHeadDim>, p, stream);
    } else {
      launch(lifetime_attention_bf16_kernel<kHeadDim>, grid, kThreadsBf16, kSharedBytesBf16<kHeadDim>, p, stream);
    }
  });
}

}  // namespace kvscope::kernels
