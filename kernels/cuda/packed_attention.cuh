#pragma once
// Lifetime attention in bfloat16 on tensor cores: one block per (128 rows, KV head).
//
// A row is one query of one query head; all heads of a group stand in the same block, so that a key of the cache is
// gathered once for the whole group. Keys come in tiles of 64 by cp.async, the next on its way while one is computed.
// Every warp has 32 rows: a fragment of keys that was read from shared memory serves two products (with 16 rows the
// reads would take as long as the products). Softmax is online, in base 2. Heads of more than 128 channels leave registers
// for 16 rows a warp and shared memory for tiles of 32 keys.

#include "kernels/cuda/attention_params.cuh"
#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/cuda/visible_keys.cuh"

namespace kvscope::kernels {

constexpr int kPackedRows = 128;  // of a block

/// How the rows of a block are dealt out to warps. A thread keeps kHeadDim / 4 sums for each 16 rows of its warp.
template <int kHeadDim>
struct PackedShape {
  static constexpr bool kIsWide = kHeadDim > 128;
  static constexpr int kSixteens = kIsWide ? 1 : 2;  // of rows, a warp
  static constexpr int kWarpRows = 16 * kSixteens;
  static constexpr int kThreads = kPackedRows / kWarpRows * 32;
  static constexpr int kKeys = kIsWide ? kKeyTile / 2 : kKeyTile;  // of a tile
  static constexpr int kLeastBlocks = kIsWide ? 1 : 2;             // of a multiprocessor
};

template <int kHeadDim>
struct PackedShared {
  static constexpr int kStride = kTileStride<__nv_bfloat16, kHeadDim>;
  static constexpr int kKeys = PackedShape<kHeadDim>::kKeys;
  __nv_bfloat16 q[kPackedRows * kStride];
  __nv_bfloat16 k[2][kKeys * kStride];
  __nv_bfloat16 v[2][kKeys * kStride];
  KeyRing ring;
};
/// This warp's logits, then weights: block n of 16 rows has columns 8 n ... of the tile's keys.
template <int kHeadDim>
using PackedLogits = float[PackedShape<kHeadDim>::kSixteens][PackedShape<kHeadDim>::kKeys / 8][4];
/// What it sums: the same with features for keys.
template <int kHeadDim>
using PackedSums = float[PackedShape<kHeadDim>::kSixteens][kHeadDim / 8][4];

/// Which rows a block works on: row r is query first_row + r / pack of head first_head + r % pack.
struct PackedBlock {
  int pack;  // query heads of the block, a divisor of the group
  int first_head;
  int kv_head;
  int first_row;  // of q
  int n_rows;     // that exist
  int first_q, last_q;

  __device__ PackedBlock(const AttentionParams& p, int pack_) : pack(pack_) {
    const int queries = kPackedRows / pack;
    first_head = static_cast<int>(blockIdx.y) * pack;
    kv_head = first_head / p.group_size;
    // Late queries see more keys: started first, they do not hold up the end of the grid.
    first_row = static_cast<int>(gridDim.x - 1 - blockIdx.x) * queries;
    const int n_queries = min(queries, static_cast<int>(p.args.q_len) - first_row);
    n_rows = n_queries * pack;
    first_q = static_cast<int>(p.args.q_start) + first_row;
    last_q = first_q + n_queries - 1;
  }
  /// Element of q (and o) at which row r begins.
  __device__ long long at(const AttentionParams& p, int r) const {
    return (static_cast<long long>(first_row + r / pack) * p.args.n_heads + first_head + r % pack) * p.args.head_dim;
  }
};

/// Asks for the rows of the tile's keys and values; rows past its end become zeros.
template <int kHeadDim>
__device__ inline void request_tile(const AttentionParams& p, const PackedBlock& block, PackedShared<kHeadDim>* shared,
                                    const KeyTile& tile, int stage) {
  constexpr int kChunks = kHeadDim / 8;
  constexpr int kStride = PackedShared<kHeadDim>::kStride, kKeys = PackedShape<kHeadDim>::kKeys;
  const auto* k = static_cast<const __nv_bfloat16*>(p.args.k) + block.kv_head * p.head_stride;
  const auto* v = static_cast<const __nv_bfloat16*>(p.args.v) + block.kv_head * p.head_stride;
  for (int i = threadIdx.x; i < kKeys * kChunks; i += PackedShape<kHeadDim>::kThreads) {
    const int key = i / kChunks, column = i % kChunks * 8;
    const bool wanted = key < tile.n;
    const long long at = wanted ? shared->ring.index[tile.entry(key)] * p.token_stride + column : 0;
    copy_16_async(&shared->k[stage][key * kStride + column], k + at, wanted);
    copy_16_async(&shared->v[stage][key * kStride + column], v + at, wanted);
  }
}

/// This warp's rows: q . k for the keys of a tile. s[m][n] is the block of rows 16 m ... and keys 8 n ...
template <int kHeadDim>
__device__ inline void packed_logits(const __nv_bfloat16* q, const __nv_bfloat16* k, PackedLogits<kHeadDim>& s) {
  using Shape = PackedShape<kHeadDim>;
  constexpr int kStride = PackedShared<kHeadDim>::kStride;
  const int lane = threadIdx.x % 32;
  const __nv_bfloat16* a_row = q + (threadIdx.x / 32 * Shape::kWarpRows + lane % 16) * kStride + lane / 16 * 8;
  const __nv_bfloat16* b_row = k + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int m = 0; m < Shape::kSixteens; ++m) {
#pragma unroll
    for (int n = 0; n < Shape::kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[m][n][i] = 0;
    }
  }
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    unsigned a[Shape::kSixteens][4];
#pragma unroll
    for (int m = 0; m < Shape::kSixteens; ++m) load_matrices(a[m], a_row + 16 * m * kStride + 16 * i);
#pragma unroll
    for (int n = 0; n < Shape::kKeys / 16; ++n) {
      unsigned b[4];
      load_matrices(b, b_row + 16 * n * kStride + 16 * i);
#pragma unroll
      for (int m = 0; m < Shape::kSixteens; ++m) {
        mma(s[m][2 * n], a[m], b[0], b[1]);
        mma(s[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// o += weights v for this warp's rows; weights are rounded to bfloat16.
template <int kHeadDim>
__device__ inline void packed_values(const PackedLogits<kHeadDim>& w, const __nv_bfloat16* v, PackedSums<kHeadDim>& o) {
  using Shape = PackedShape<kHeadDim>;
  constexpr int kStride = PackedShared<kHeadDim>::kStride;
  const int lane = threadIdx.x % 32;
  const __nv_bfloat16* b_row = v + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int i = 0; i < Shape::kKeys / 16; ++i) {
    unsigned a[Shape::kSixteens][4];
#pragma unroll
    for (int m = 0; m < Shape::kSixteens; ++m) {
      a[m][0] = pack(w[m][2 * i][0], w[m][2 * i][1]);
      a[m][1] = pack(w[m][2 * i][2], w[m][2 * i][3]);
      a[m][2] = pack(w[m][2 * i + 1][0], w[m][2 * i + 1][1]);
      a[m][3] = pack(w[m][2 * i + 1][2], w[m][2 * i + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < kHeadDim / 16; ++n) {
      unsigned b[4];
      load_matrices_transposed(b, b_row + 16 * i * kStride + 16 * n);
#pragma unroll
      for (int m = 0; m < Shape::kSixteens; ++m) {
        mma(o[m][2 * n], a[m], b[0], b[1]);
        mma(o[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// Logits of keys that a row does not see become -inf. q[m][half]: position of rows lane / 4 + 16 m + 8 half.
template <int kSixteens, int kEights>
__device__ inline void mask_logits(const KeyRing& ring, const KeyTile& tile, const int (&q)[kSixteens][2],
                                   float (&s)[kSixteens][kEights][4]) {
  const int pair = threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < kEights; ++n) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int key = 8 * n + pair + odd;
      const int entry = tile.entry(key);
      const int position = key < tile.n ? ring.position[entry] : INT_MAX;
      const int evict_at = ring.evict_at[entry];
#pragma unroll
      for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (position > q[m][half] || q[m][half] >= evict_at) s[m][n][2 * half + odd] = -INFINITY;
        }
      }
    }
  }
}

/// Products become weights; what was summed before is scaled to the new maximum.
template <int kHeadDim, class Scores, int kEights>
__device__ inline void packed_softmax(const Scores& scores, float (&s)[kEights][4], SoftmaxState (&state)[2],
                                      float (&o)[kHeadDim / 8][4]) {
  float correction[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float row_max = -INFINITY;
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) row_max = fmaxf(row_max, s[n][2 * half + odd]);
    }
    row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 1));  // the four threads of a row are neighbours
    row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 2));
    correction[half] = state[half].raise(scores.score(row_max));  // the greatest product has the greatest score
    const float shift = state[half].shift();
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const float w = fast_exp2(scores.exponent(s[n][2 * half + odd], shift));
        s[n][2 * half + odd] = w;
        state[half].l += w;  // of this thread's columns
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) o[n][i] *= correction[i / 2];
  }
}

template <int kHeadDim, class Scores>
__device__ inline void write_rows(const AttentionParams& p, const PackedBlock& block,
                                  SoftmaxState (&state)[PackedShape<kHeadDim>::kSixteens][2],
                                  const PackedSums<kHeadDim>& o) {
  using Shape = PackedShape<kHeadDim>;
  const int lane = threadIdx.x % 32, pair = lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < Shape::kSixteens; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      SoftmaxState& row_state = state[m][half];
      row_state.l += __shfl_xor_sync(0xffffffffu, row_state.l, 1);
      row_state.l += __shfl_xor_sync(0xffffffffu, row_state.l, 2);
      const int r = static_cast<int>(threadIdx.x) / 32 * Shape::kWarpRows + 16 * m + 8 * half + lane / 4;
      if (r >= block.n_rows) continue;
      const int head = block.first_head + r % block.pack;
      const float factor = join_sink<Scores>(p.args.variant.sink, head, row_state);
      const float inverse = row_state.inverse() * factor;
      __nv_bfloat16* out = static_cast<__nv_bfloat16*>(p.args.o) + block.at(p, r) + pair;
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        *reinterpret_cast<__nv_bfloat162*>(out + 8 * n) =
            __floats2bfloat162_rn(o[m][n][2 * half] * inverse, o[m][n][2 * half + 1] * inverse);
      }
      if (p.args.lse && pair == 0) {
        p.args.lse[head * p.args.q_len + block.first_row + r / block.pack] = row_state.lse();
      }
    }
  }
}

template <int kHeadDim, class Scores>
__global__ void __launch_bounds__(PackedShape<kHeadDim>::kThreads, PackedShape<kHeadDim>::kLeastBlocks)
    lifetime_attention_bf16_kernel(AttentionParams p, int pack, Scores scores) {
  using Shape = PackedShape<kHeadDim>;
  constexpr int kStride = PackedShared<kHeadDim>::kStride;
  extern __shared__ __align__(16) char memory[];
  auto* shared = reinterpret_cast<PackedShared<kHeadDim>*>(memory);
  const PackedBlock block(p, pack);
  const int warp_row = threadIdx.x / 32 * Shape::kWarpRows + threadIdx.x % 32 / 4;

  for (int i = threadIdx.x; i < kPackedRows * (kHeadDim / 8); i += Shape::kThreads) {
    const int r = i / (kHeadDim / 8), column = i % (kHeadDim / 8) * 8;
    const bool wanted = r < block.n_rows;
    const auto* from = static_cast<const __nv_bfloat16*>(p.args.q) + (wanted ? block.at(p, r) + column : 0);
    copy_16_async(&shared->q[r * kStride + column], from, wanted);
  }
  int q[Shape::kSixteens][2];
#pragma unroll
  for (int m = 0; m < Shape::kSixteens; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) q[m][half] = block.first_q + (warp_row + 16 * m + 8 * half) / pack;
  }

  KeyScan<Shape::kThreads, Shape::kKeys> scan(key_source(p, block.kv_head, block.first_q, block.last_q), &shared->ring);
  SoftmaxState state[Shape::kSixteens][2];
#pragma unroll
  for (int m = 0; m < Shape::kSixteens; ++m) state[m][0] = state[m][1] = nothing_seen();
  PackedSums<kHeadDim> o = {};
  KeyTile tile = scan.next();
  request_tile<kHeadDim>(p, block, shared, tile, 0);
  end_copy_group();
  for (int stage = 0; tile.n > 0; stage ^= 1) {
    const KeyTile next = scan.next();
    if (next.n > 0) request_tile<kHeadDim>(p, block, shared, next, stage ^ 1);
    end_copy_group();
    wait_copy_groups<1>();
    bool seen_by_all = true;
    if (threadIdx.x < Shape::kKeys) {
      const int entry = tile.entry(threadIdx.x);
      seen_by_all = static_cast<int>(threadIdx.x) < tile.n && shared->ring.position[entry] <= block.first_q &&
                    shared->ring.evict_at[entry] > block.last_q;
    }
    seen_by_all = __syncthreads_and(seen_by_all);
    PackedLogits<kHeadDim> s;
    packed_logits<kHeadDim>(shared->q, shared->k[stage], s);
    if (!seen_by_all) mask_logits(shared->ring, tile, q, s);
#pragma unroll
    for (int m = 0; m < Shape::kSixteens; ++m) packed_softmax<kHeadDim>(scores, s[m], state[m], o[m]);
    packed_values<kHeadDim>(s, shared->v[stage], o);
    __syncthreads();  // this stage and its entries have been used
    tile = next;
  }
  wait_copy_groups<0>();  // the queries of a block that sees no key
  write_rows<kHeadDim, Scores>(p, block, state, o);
}

}  // namespace kvscope::kernels
