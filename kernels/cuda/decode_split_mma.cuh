#pragma once
// Split attention of one query token over bfloat16 slots on tensor cores. The query heads of a KV head are eight or
// sixteen columns of an mma (a group of four leaves half of them idle), its rows are keys, and then features: a key is read
// once for all heads of the group.
//
// A warp takes pages of 16 slots, some of them on their way at a time; nothing but its own lanes has to meet. What the
// four warps found in a part of the tiles (decode_walk.cuh) is added up in shared memory, what was found in the parts of a
// head by the last block to finish one, in a fixed order. Measured on an H200, Qwen3-8B shapes, us a layer, with mma rows
// for 16 heads and a block for each part before: 1 sequence of 2,048 tokens 8.2, now 7.3; 16 of them 64.9, now 44.3; 32 of
// 1,024 tokens 65.9, now 44.8; 16 of 2,000 to 14,000 tokens a head 176.7, now 145.0.

#include "kernels/cuda/decode_split.h"
#include "kernels/cuda/decode_tiles.cuh"
#include "kernels/cuda/decode_walk.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/score_variant.cuh"
#include "kernels/cuda/softmax_state.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/decode_attention.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// One feature of a head's answer, from its weighted sum over all keys; with the first one the head's lse.
template <typename T, class Scores>
__device__ inline void write_result(const DecodeAttentionArgs& args, int head, int feature, int head_dim, float o,
                                    SoftmaxState state) {
  o *= join_sink<Scores>(args.variant.sink, head, state);
  static_cast<T*>(args.o)[head * head_dim + feature] = from_float<T>(state.mean(o));
  if (feature == 0 && args.lse) args.lse[head] = state.lse();
}

namespace mma_split {

/// The group's queries as operand b of kHeadDim / 16 steps; heads past the group are zero.
template <int kHeadDim, int kEights>
__device__ inline void load_queries(const Params& p, int first_head, int n_group,
                                    unsigned (&q)[kEights][kHeadDim / 16][2]) {
  const int lane = threadIdx.x % 32;
  const auto* data = static_cast<const __nv_bfloat16*>(p.args.q) + static_cast<long long>(first_head) * kHeadDim;
#pragma unroll
  for (int e = 0; e < kEights; ++e) {
    const int head = 8 * e + lane / 4;
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) {
      const int column = 8 * i + lane % 4 * 2;
      q[e][i / 2][i % 2] = head < n_group ? *reinterpret_cast<const unsigned*>(data + head * kHeadDim + column) : 0u;
    }
  }
}

/// Running softmax of a warp: logits are keys q^T, results values^T weights^T. This lane has heads 8 e + lane % 4 * 2 + j.
template <int kHeadDim, int kEights>
struct Running {
  float o[kEights][kHeadDim / 16][4] = {};  // features lane / 4 and lane / 4 + 8 of 16, each of two heads
  SoftmaxState state[kEights * 2];

  __device__ Running() {
#pragma unroll
    for (auto& s : state) s = nothing_seen();
  }

  template <class Scores>
  __device__ void add(const __nv_bfloat16* keys, const __nv_bfloat16* values, unsigned taken,
                      const unsigned (&q)[kEights][kHeadDim / 16][2], const Scores& scores) {
    constexpr int kStride = Shared<kHeadDim>::kStride;
    const int lane = threadIdx.x % 32;
    float sums[2][kEights][4] = {};  // of even and of odd steps, so that one need not wait for the other
    const __nv_bfloat16* key = keys + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i) {
      unsigned r[4];
      load_matrices(r, key + 16 * i);
#pragma unroll
      for (int e = 0; e < kEights; ++e) mma(sums[i % 2][e], r, q[e][i][0], q[e][i][1]);
    }
    unsigned weights[kEights][2];
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
      float s[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int slot = lane / 4 + i / 2 * 8;
        s[i] = taken >> slot & 1 ? scores.score(sums[0][e][i] + sums[1][e][i]) : -INFINITY;
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float greatest = fmaxf(s[j], s[j + 2]);
        for (int other = 4; other < 32; other *= 2) {
          greatest = fmaxf(greatest, __shfl_xor_sync(kFullWarp, greatest, other));
        }
        SoftmaxState& running = state[2 * e + j];
        const float correction = running.raise(greatest);
        s[j] = running.weight(s[j]);
        s[j + 2] = running.weight(s[j + 2]);
        running.l += s[j] + s[j + 2];  // of this lane's slots
#pragma unroll
        for (int n = 0; n < kHeadDim / 16; ++n) {
          o[e][n][j] *= correction;
          o[e][n][j + 2] *= correction;
        }
      }
      weights[e][0] = transposed(pack(s[0], s[1]));
      weights[e][1] = transposed(pack(s[2], s[3]));
    }
    const __nv_bfloat16* value = values + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < kHeadDim / 16; ++n) {
      unsigned r[4];
      load_matrices_transposed(r, value + 16 * n);
#pragma unroll
      for (int e = 0; e < kEights; ++e) mma(o[e][n], r, weights[e][0], weights[e][1]);
    }
  }

  __device__ void store(Found<kHeadDim>& found, int n_group) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kEights * 2; ++i) {
      const int head = i / 2 * 8 + lane % 4 * 2 + i % 2;
      float sum = state[i].l;
      for (int other = 4; other < 32; other *= 2) sum += __shfl_xor_sync(kFullWarp, sum, other);
      if (head >= n_group) continue;
      if (lane < 4) found.state[head] = {state[i].m, sum};
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        found.o[head][8 * n + lane / 4] = o[i / 2][n / 2][n % 2 * 2 + i % 2];
      }
    }
  }
};

template <class Scores>
__device__ inline void write_results(const Params& p, int head, int feature, int head_dim, const float4& o,
                                     const SoftmaxState& state) {
  const float of[] = {o.x, o.y, o.z, o.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    write_result<__nv_bfloat16, Scores>(p.args, head, feature + i, head_dim, of[i], state);
  }
}

__device__ inline void add_weighted(float4& sum, float weight, const float4& part) {
  sum.x += weight * part.x;
  sum.y += weight * part.y;
  sum.z += weight * part.z;
  sum.w += weight * part.w;
}

/// Adds up what the warps found in `part`; the head's answer if there is no other, else for merge_splits().
template <int kHeadDim, class Scores>
__device__ void merge_warps(const Params& p, Shared<kHeadDim>& shared, int stage, int first_head, int n_group, int part,
                            int n_used) {
  for (int i = threadIdx.x; i < n_group * kHeadDim / 4; i += kThreads) {
    const int g = i / (kHeadDim / 4), d = i % (kHeadDim / 4) * 4;
    SoftmaxState state = nothing_seen(), found[kWarps];
    float4 o[kWarps], sum = {0, 0, 0, 0};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const auto& of_warp = Found<kHeadDim>::of(shared, w, stage);
      found[w] = of_warp.state[g];
      o[w] = *reinterpret_cast<const float4*>(&of_warp.o[g][d]);
      state.m = fmaxf(state.m, found[w].m);
    }
#pragma unroll
    for (int w = 0; w < kWarps; ++w) add_weighted(sum, state.add(found[w]), o[w]);
    if (n_used == 1) {
      write_results<Scores>(p, first_head + g, d, kHeadDim, sum, state);
      continue;
    }
    const long long at = static_cast<long long>(first_head + g) * p.n_splits + part;
    __stcg(reinterpret_cast<float4*>(p.partial + at * kHeadDim + d), sum);
    if (d == 0) __stcg(reinterpret_cast<float2*>(p.softmax) + at, make_float2(state.m, state.l));
  }
}

/// True in the block that finishes a head, `n_done` of its `n_used` parts now. All threads' parts are written, and the
/// block has been synchronised.
__device__ inline bool is_last_of_head(unsigned* counter, int n_done, int n_used) {
  __shared__ bool is_last;
  if (n_done == n_used) return true;
  if (threadIdx.x == 0) {
    __threadfence();  // this block's parts are seen before its count
    is_last = atomicAdd(counter, n_done) + n_done == n_used;
    if (is_last) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

/// By the last block of a head: a warp a query head, its lanes along the features, four of every 128 each. kBatch parts are on
/// their way at once, the first of them while the weights are still to be found.
template <int kHeadDim, class Scores>
__device__ void merge_splits(const Params& p, float (*weight)[kMaxDecodeSplits], int first_head, int n_group,
                             int n_used) {
  constexpr int kFours = kHeadDim / 4, kPerLane = (kFours + 31) / 32;
  constexpr int kBatch = kHeadDim > 80 && kPerLane == 1 ? 16 : 8;  // as far as the registers of kBlocksAtOnce blocks go
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int g = warp; g < n_group; g += kWarps) {
    const long long first = static_cast<long long>(first_head + g) * p.n_splits;
    const auto* parts = reinterpret_cast<const float4*>(p.partial + first * kHeadDim) + lane;
    const auto has_features = [&](int j) { return lane + 32 * j < kFours; };
    float4 part[kBatch][kPerLane], o[kPerLane] = {};
    const auto load = [&](int begin) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
#pragma unroll
        for (int j = 0; j < kPerLane; ++j) {
          if (has_features(j) && begin + i < n_used) part[i][j] = __ldcg(parts + (begin + i) * kFours + 32 * j);
        }
      }
    };
    load(0);
    const auto* softmax = reinterpret_cast<const float2*>(p.softmax) + first;
    static_assert(kMaxDecodeSplits <= 64, "two splits a lane");
    const float2 none = {-INFINITY, 0};
    const float2 a = lane < n_used ? __ldcg(softmax + lane) : none;
    const float2 b = lane + 32 < n_used ? __ldcg(softmax + lane + 32) : none;
    SoftmaxState state = {warp_max(fmaxf(a.x, b.x)), 0};
    weight[warp][lane] = state.weight(a.x);
    weight[warp][lane + 32] = state.weight(b.x);
    state.l = warp_sum(weight[warp][lane] * a.y + weight[warp][lane + 32] * b.y);
    __syncwarp();
    for (int begin = 0; begin < n_used; begin += kBatch) {
      if (begin > 0) load(begin);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
#pragma unroll
        for (int j = 0; j < kPerLane; ++j) {
          if (begin + i < n_used) add_weighted(o[j], weight[warp][begin + i], part[i][j]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (has_features(j)) write_results<Scores>(p, first_head + g, 4 * (lane + 32 * j), kHeadDim, o[j], state);
    }
    __syncwarp();
  }
}

// Few parts: one block per (part of the tiles, KV head and part of its group, row). Many: see decode_walk.cuh.
template <int kHeadDim, int kEights, class Scores, int kRows>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<kHeadDim, kEights>)
    decode_split_mma_kernel(const __grid_constant__ RowArgs<Params, kRows> rows, int n_rows, Scores scores) {
  extern __shared__ __align__(128) char dynamic[];
  __shared__ float weight[kWarps][kMaxDecodeSplits];
  auto& shared = *reinterpret_cast<Shared<kHeadDim>*>(dynamic);
  const int warp = threadIdx.x / 32;
  const bool has_block_a_part = Walk<kRows>::has_block_a_part();

  let_next_start();
  Source source(rows.of(blockIdx.z).args.cache, blockIdx.y / rows.row[0].n_parts);
  const int first_tile = blockIdx.x * kWarps + warp;
  if (has_block_a_part) prefetch_tile<kHeadDim>(source, first_tile);
  wait_for_previous();
  Tile next = {};
  if (has_block_a_part) next = look_up(source, first_tile);
  Walk<kRows> now(rows, n_rows);
  if (now.is_done()) return;

  Walk<kRows> ahead = now;  // the next tile to ask for
  if (!has_block_a_part) {
    source = Source(ahead.row().args.cache, ahead.kv_head());
    next = look_up(source, ahead.tile(warp));
  }
  const auto fetch_next = [&](int stage) {
    if (!ahead.is_done()) {
      const int n_slots = ahead.tiles().n_slots - ahead.tile(warp) * kSlots;
      if (ahead.has_tile(warp)) fetch(source, next, n_slots, warp, stage, shared);
      if (!ahead.next_round() && !ahead.next_part()) {
        ahead.next_head();
        if (!ahead.is_done()) source = Source(ahead.row().args.cache, ahead.kv_head());
      }
      if (!ahead.is_done()) next = look_up(source, ahead.tile(warp));
    }
    end_copy_group();
  };
  for (int stage = 0; stage < kStages<kHeadDim>; ++stage) fetch_next(stage);

  int stage = 0;  // of the tile to use, then of the next one to ask for
  for (; !now.is_done(); now.next_head()) {
    const Params& p = now.row();
    const int group_part = now.head() % p.n_parts;
    const int n_group = min(8 * kEights, p.group_size - group_part * 8 * kEights);
    const int first_head = now.kv_head() * p.group_size + group_part * 8 * kEights;
    const int n_used = now.tiles().n_used, first_part = now.part();
    unsigned q[kEights][kHeadDim / 16][2];
    load_queries<kHeadDim>(p, first_head, n_group, q);
    do {
      Running<kHeadDim, kEights> running;
      bool is_end = false;
      while (!is_end) {
        wait_copy_groups<kStages<kHeadDim> - 1>();
        __syncwarp();
        if (now.has_tile(warp)) {
          running.add(&shared.tile[warp][stage][0][0][0], &shared.tile[warp][stage][1][0][0], shared.taken[warp][stage],
                      q, scores);
        }
        __syncwarp();  // the stage may be filled again
        is_end = !now.next_round();
        if (is_end) {
          running.store(Found<kHeadDim>::of(shared, warp, stage), n_group);
          __syncthreads();
          merge_warps<kHeadDim, Scores>(p, shared, stage, first_head, n_group, now.part(), n_used);
          __syncthreads();
        }
        fetch_next(stage);
        stage = stage + 1 == kStages<kHeadDim> ? 0 : stage + 1;
      }
    } while (now.next_part());
    if (n_used > 1 && is_last_of_head(p.counter + now.head(), now.part() - first_part, n_used)) {
      merge_splits<kHeadDim, Scores>(p, weight, first_head, n_group, n_used);
    }
  }
}

}  // namespace mma_split
}  // namespace kvscope::kernels
