#include "kernels/cuda/attention_params.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packed_attention.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/cuda/visible_keys.cuh"
#include "kernels/lifetime_attention.h"

// bfloat16 on tensor cores is cuda/packed_attention.cuh. float32, on the ordinary units, is here: one block per (64
// queries, query head), tiles of 64 visible keys, then values, in shared memory; softmax is online, in base 2.

namespace kvscope::kernels {
namespace {

constexpr int kWeightStride = kTileRows + 4;
static_assert(kTileRows == kKeyTile, "tile_product() takes tiles of queries and keys of one size");

template <int kHeadDim>
struct SharedF32 {
  float q[kTileElements<float, kHeadDim>];
  float kv[kTileElements<float, kHeadDim>];  // keys, then values
  float weight[kTileRows * kWeightStride];
  KeyRing ring;
};

/// Rows of the tile's keys (or values) to shared memory; rows past its end become zeros.
template <int kHeadDim>
__device__ void gather_tile(float* shared, const float* data, long long token_stride, const KeyRing& ring,
                            const KeyTile& tile) {
  constexpr int kChunks = kHeadDim / 4;
  for (int i = threadIdx.x; i < kTileRows * kChunks; i += kThreadsF32) {
    const int key = i / kChunks, column = i % kChunks * 4;
    Chunk<float> chunk = {};
    if (key < tile.n) chunk = load_chunk(data + ring.index[tile.entry(key)] * token_stride + column);
    store_chunk(shared + key * kTileStride<float, kHeadDim> + column, chunk);
  }
}

/// This thread's logits of a tile, rows ty + 16 i and keys tx + 16 j, become weights in shared memory; returns the
/// factors for what was summed before.
template <class Scores>
__device__ __forceinline__ void tile_softmax(const KeyRing& ring, const KeyTile& tile, const Scores& scores,
                                             int first_q, float (&s)[4][4], SoftmaxState (&state)[4], float* weight,
                                             float (&correction)[4]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int position = first_q + ty + 16 * i;
    float row_max = -INFINITY;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = tx + 16 * j;
      const int entry = tile.entry(key);
      const bool visible = key < tile.n && ring.position[entry] <= position && position < ring.evict_at[entry];
      s[i][j] = visible ? scores.score(s[i][j]) : -INFINITY;
      row_max = fmaxf(row_max, s[i][j]);
    }
    for (int lane = 8; lane > 0; lane /= 2) row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, lane));
    correction[i] = state[i].raise(row_max);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float w = state[i].weight(s[i][j]);
      state[i].l += w;  // of this thread's columns; the 16 threads of a row meet at the end
      weight[(ty + 16 * i) * kWeightStride + tx + 16 * j] = w;
    }
  }
}

/// o += weights v: rows ty + 16 i and features tx + 16 f.
template <int kHeadDim>
__device__ __forceinline__ void add_values(const float* weight, const float* values, float (&o)[4][kHeadDim / 16]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll 4
  for (int key = 0; key < kTileRows; ++key) {
    float w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = weight[(ty + 16 * i) * kWeightStride + key];
#pragma unroll
    for (int f = 0; f < kHeadDim / 16; ++f) {
      const float v = values[key * kTileStride<float, kHeadDim> + tx + 16 * f];
#pragma unroll
      for (int i = 0; i < 4; ++i) o[i][f] += w[i] * v;
    }
  }
}

template <int kHeadDim, class Scores>
__global__ void __launch_bounds__(kThreadsF32) lifetime_attention_f32_kernel(AttentionParams p, Scores scores) {
  constexpr int kStride = kTileStride<float, kHeadDim>;
  constexpr int kFeatures = kHeadDim / 16;  // of a row, a thread: tx, tx + 16, ...
  extern __shared__ __align__(16) char memory[];
  auto* shared = reinterpret_cast<SharedF32<kHeadDim>*>(memory);
  float* weight = shared->weight;

  const LifetimeAttentionArgs& args = p.args;
  const int tx = threadIdx.x % 16;
  const int ty = threadIdx.x / 16;
  const int head = blockIdx.y;
  const int kv_head = head / p.group_size;
  // Late queries see more keys: started first, they do not hold up the end of the grid.
  const int first_row = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTileRows;
  const int end_row = min(first_row + kTileRows, static_cast<int>(args.q_len));
  const int first_q = static_cast<int>(args.q_start) + first_row;
  const auto* k_data = static_cast<const float*>(args.k) + kv_head * p.head_stride;
  const auto* v_data = static_cast<const float*>(args.v) + kv_head * p.head_stride;
  load_tile<kTileRows, kHeadDim, kStride>(shared->q, static_cast<const float*>(args.q), first_row, end_row, head,
                                          args.n_heads);
  KeyScan<kThreadsF32> scan(key_source(p, kv_head, first_q, first_q + end_row - first_row - 1), &shared->ring);
  SoftmaxState state[4] = {nothing_seen(), nothing_seen(), nothing_seen(), nothing_seen()};
  float o[4][kFeatures] = {};

  for (KeyTile tile = scan.next(); tile.n > 0; tile = scan.next()) {
    __syncthreads();  // the values before have been used
    gather_tile<kHeadDim>(shared->kv, k_data, p.token_stride, shared->ring, tile);
    __syncthreads();
    float s[4][4];
    tile_product<kHeadDim>(shared->q, shared->kv, s);
    float correction[4];
    tile_softmax(shared->ring, tile, scores, first_q, s, state, weight, correction);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int f = 0; f < kFeatures; ++f) o[i][f] *= correction[i];
    }
    __syncthreads();  // keys have been used, weights are written
    gather_tile<kHeadDim>(shared->kv, v_data, p.token_stride, shared->ring, tile);
    __syncthreads();
    add_values<kHeadDim>(weight, shared->kv, o);
  }

#pragma unroll
  for (int i = 0; i < 4; ++i) {
    for (int lane = 8; lane > 0; lane /= 2) state[i].l += __shfl_xor_sync(0xffffffffu, state[i].l, lane);
    const int row = first_row + ty + 16 * i;
    if (row >= end_row) continue;
    const float factor = join_sink<Scores>(args.variant.sink, head, state[i]);
    const float inverse = state[i].inverse() * factor;
    float* out = static_cast<float*>(args.o) + (static_cast<long long>(row) * args.n_heads + head) * kHeadDim;
#pragma unroll
    for (int f = 0; f < kFeatures; ++f) out[tx + 16 * f] = o[i][f] * inverse;
    if (args.lse && tx == 0) args.lse[head * args.q_len + row] = state[i].lse();
  }
}

unsigned blocks_for(std::int64_t n, int per_block) { return static_cast<unsigned>((n + per_block - 1) / per_block); }

}  // namespace

void cuda::lifetime_attention(const LifetimeAttentionArgs& args, Stream stream) {
  require_alignment("lifetime_attention", "q", args.q);
  require_alignment("lifetime_attention", "k", args.k);
  require_alignment("lifetime_attention", "v", args.v);
  require_alignment("lifetime_attention", "o", args.o);
  const int per_16_bytes = args.dtype == DType::f32 ? 4 : 8;
  for (const std::int64_t stride : {token_stride(args), head_stride(args)}) {
    if (stride % per_16_bytes != 0) refuse("lifetime_attention", "stride of keys", stride, "a multiple of 16 bytes");
  }
  const int group_size = args.n_heads / args.n_kv_heads;
  const AttentionParams p = {args, token_stride(args), head_stride(args), group_size};
  dispatch_head_dim("lifetime_attention", args.head_dim, [&]<int kHeadDim>() {
    dispatch_scores(args.scale, args.variant, [&]<class Scores>(const Scores& scores) {
      if (args.dtype == DType::f32) {
        const dim3 grid(blocks_for(args.q_len, kTileRows), args.n_heads);
        launch_shared(lifetime_attention_f32_kernel<kHeadDim, Scores>, grid, kThreadsF32, sizeof(SharedF32<kHeadDim>),
                      stream, p, scores);
      } else {
        const int pack = group_size <= kPackedRows ? group_size : 1;
        const dim3 grid(blocks_for(args.q_len, kPackedRows / pack), args.n_heads / pack);
        launch_shared(lifetime_attention_bf16_kernel<kHeadDim, Scores>, grid, PackedShape<kHeadDim>::kThreads,
                      sizeof(PackedShared<kHeadDim>), stream, p, pack, scores);
      }
    });
  });
}

}  // namespace kvscope::kernels
