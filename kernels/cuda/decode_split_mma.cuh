#pragma once
// Split attention of one query token over bfloat16 slots on tensor cores. The query heads of a KV head are the 16 rows
// of an mma (a group of four leaves twelve idle: the memory is what counts, and a key is read once for all of them).
//
// A warp takes pages of 16 slots, three of them on their way at a time; nothing but its own lanes has to meet. What the
// four warps found is added up in shared memory, what the blocks found by the last of them to finish, in a fixed order.

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/decode_split.h"
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

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kSlots = 16;  // of a tile: one page
constexpr int kHeads = 16;  // query heads of a block
constexpr int kStages = 3;
// Of a block, unless it alone has a head: two a warp. Measured on an H200, Qwen3-8B shapes, ms per step of 1 and of 16
// sequences of 2,048 tokens: 4 tiles 4.468, 9.553; 8 tiles 4.462, 8.701; 16 tiles 4.513, 8.355; 32 tiles 4.654, 8.333.
constexpr int kLeastTiles = 8;

struct Params {
  DecodeAttentionArgs args;
  unsigned* counter;  // [n_kv_heads * n_parts], zero between calls
  float* partial;     // [n_heads, n_splits, head_dim]: weighted sums
  float* softmax;     // [n_heads, n_splits, 2]: m (base 2), l
  int group_size;
  int n_parts;
  int n_splits;  // at most; gridDim.x is that of the row with the most
};

template <int kHeadDim>
struct Shared {
  static constexpr int kStride = kHeadDim + 8;  // 16 bytes of padding: neighbouring rows fall into different banks
  __nv_bfloat16 tile[kWarps][kStages][2][kSlots][kStride];  // keys, values
  unsigned taken[kWarps][kStages];                          // bit s: slot s of the tile holds a token
};
/// The warps' results lie where the tiles were.
template <int kHeadDim>
struct Results {
  float o[kWarps][kHeads][kHeadDim];
  SoftmaxState state[kWarps][kHeads];
};

/// Where a tile is and who is in it; looked up one tile ahead, since the loads depend on it.
struct Tile {
  std::int32_t page;
  std::int32_t position;  // of slot lane % 16; -1: free or past the end
};

__device__ inline Tile look_up(const SlotCacheView& cache, int kv_head, int n_slots, int tile) {
  const int lane = threadIdx.x % 32;
  const int slot = tile * kSlots + lane % kSlots;
  if (tile >= cache.max_pages) return {0, -1};
  // Looked up whether or not slots are in use, so that this need not wait for n_slots.
  const std::int32_t page = cache.page_table[static_cast<long long>(kv_head) * cache.max_pages + tile];
  const std::int32_t position = cache.slot_position[slot_row(cache, kv_head) + slot];
  return {page, slot < n_slots ? position : -1};
}

/// While the kernel before still decides where the new token goes: brings this warp's first tile nearer. Of what it may
/// be writing only the page table is read (select_pages writes one); an old page or none only costs a request.
template <int kHeadDim>
__device__ inline void prefetch_first_tiles(const SlotCacheView& cache, int kv_head, int warp) {
  const int tile = blockIdx.x * kWarps + warp;
  if (tile >= cache.max_pages) return;
  const long long page = cache.page_table[static_cast<long long>(kv_head) * cache.max_pages + tile];
  const char* keys = static_cast<const char*>(cache.k_pool) + page * kSlots * kHeadDim * 2;
  const char* values = static_cast<const char*>(cache.v_pool) + page * kSlots * kHeadDim * 2;
  for (int line = threadIdx.x % 32; line < kSlots * kHeadDim * 2 / 128; line += 32) {
    prefetch_to_l2(keys + line * 128);
    prefetch_to_l2(values + line * 128);
  }
}

/// Asks for a tile's keys and values. Rows of free slots become zeros: what lies there may be NaN, and 0 * NaN is NaN.
template <int kHeadDim>
__device__ inline void fetch(const SlotCacheView& cache, const Tile& where, int warp, int stage,
                             Shared<kHeadDim>& shared) {
  constexpr int kChunks = kHeadDim / 8;
  const int lane = threadIdx.x % 32;
  const unsigned taken = __ballot_sync(kFullWarp, where.position >= 0) & 0xffffu;
  if (lane == 0) shared.taken[warp][stage] = taken;
  const long long page = static_cast<long long>(where.page) * kSlots * kHeadDim;
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const auto* pool = static_cast<const __nv_bfloat16*>(part == 0 ? cache.k_pool : cache.v_pool) + page;
#pragma unroll
    for (int i = 0; i < kSlots * kChunks / 32; ++i) {
      const int chunk = lane + 32 * i, row = chunk / kChunks, column = chunk % kChunks * 8;
      copy_16_async(&shared.tile[warp][stage][part][row][column], pool + chunk * 8, taken >> row & 1);
    }
  }
}

/// The group's queries as operand a of kHeadDim / 16 steps; rows past the group are zero.
template <int kHeadDim>
__device__ inline void load_queries(const Params& p, int first_head, int n_group, unsigned (&q)[kHeadDim / 16][4]) {
  const int lane = threadIdx.x % 32;
  const auto* data = static_cast<const __nv_bfloat16*>(p.args.q) + static_cast<long long>(first_head) * kHeadDim;
  const auto pair = [&](int row, int column) {
    return row < n_group ? *reinterpret_cast<const unsigned*>(data + row * kHeadDim + column) : 0u;
  };
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    const int column = 16 * i + lane % 4 * 2;
    q[i][0] = pair(lane / 4, column);
    q[i][1] = pair(lane / 4 + 8, column);
    q[i][2] = pair(lane / 4, column + 8);
    q[i][3] = pair(lane / 4 + 8, column + 8);
  }
}

/// Running softmax of this lane's two rows (heads lane / 4 and lane / 4 + 8).
template <int kHeadDim>
struct Running {
  float o[kHeadDim / 8][4] = {};
  SoftmaxState state[2] = {nothing_seen(), nothing_seen()};

  template <class Scores>
  __device__ void add(const __nv_bfloat16* keys, const __nv_bfloat16* values, unsigned taken,
                      const unsigned (&q)[kHeadDim / 16][4], const Scores& scores) {
    constexpr int kStride = Shared<kHeadDim>::kStride;
    const int lane = threadIdx.x % 32;
    float s[2][4] = {};
    const __nv_bfloat16* key = keys + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i) {
      unsigned r[4];
      load_matrices(r, key + 16 * i);
      mma(s[0], q[i], r[0], r[1]);
      mma(s[1], q[i], r[2], r[3]);
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int slot = 8 * n + lane % 4 * 2 + i % 2;
        s[n][i] = taken >> slot & 1 ? scores.score(s[n][i]) : -INFINITY;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* a = s[0] + 2 * half;
      float* b = s[1] + 2 * half;
      float greatest = fmaxf(fmaxf(a[0], a[1]), fmaxf(b[0], b[1]));
      greatest = fmaxf(greatest, __shfl_xor_sync(kFullWarp, greatest, 1));
      greatest = fmaxf(greatest, __shfl_xor_sync(kFullWarp, greatest, 2));
      const float correction = state[half].raise(greatest);
      a[0] = state[half].weight(a[0]);
      a[1] = state[half].weight(a[1]);
      b[0] = state[half].weight(b[0]);
      b[1] = state[half].weight(b[1]);
      state[half].l = state[half].l + (a[0] + a[1]) + (b[0] + b[1]);  // of this lane's columns
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        o[n][2 * half] *= correction;
        o[n][2 * half + 1] *= correction;
      }
    }
    const unsigned weights[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]),
                                 pack(s[1][2], s[1][3])};
    const __nv_bfloat16* value = values + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
    for (int n = 0; n < kHeadDim / 16; ++n) {
      unsigned r[4];
      load_matrices_transposed(r, value + 16 * n);
      mma(o[2 * n], weights, r[0], r[1]);
      mma(o[2 * n + 1], weights, r[2], r[3]);
    }
  }

  __device__ void store(Results<kHeadDim>& results, int warp, int n_group) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + 8 * half;
      float sum = state[half].l + __shfl_xor_sync(kFullWarp, state[half].l, 1);
      sum += __shfl_xor_sync(kFullWarp, sum, 2);
      if (row >= n_group) continue;
      if (lane % 4 == 0) results.state[warp][row] = {state[half].m, sum};
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        results.o[warp][row][8 * n + lane % 4 * 2] = o[n][2 * half];
        results.o[warp][row][8 * n + lane % 4 * 2 + 1] = o[n][2 * half + 1];
      }
    }
  }
};

/// Adds the warps' results up; the head's answer if this block alone has it, else a part for merge_splits().
template <int kHeadDim, class Scores>
__device__ void merge_warps(const Params& p, const Results<kHeadDim>& results, int first_head, int n_group,
                            int n_used) {
  for (int i = threadIdx.x; i < n_group * kHeadDim; i += kThreads) {
    const int g = i / kHeadDim, d = i % kHeadDim;
    SoftmaxState state = nothing_seen();
    for (int w = 0; w < kWarps; ++w) state.m = fmaxf(state.m, results.state[w][g].m);
    float o = 0;
    for (int w = 0; w < kWarps; ++w) o += state.add(results.state[w][g]) * results.o[w][g][d];
    if (n_used == 1) {
      write_result<__nv_bfloat16, Scores>(p.args, first_head + g, d, kHeadDim, o, state);
      continue;
    }
    const long long at = static_cast<long long>(first_head + g) * p.n_splits + blockIdx.x;
    __stcg(p.partial + at * kHeadDim + d, o);
    if (d == 0) __stcg(reinterpret_cast<float2*>(p.softmax) + at, make_float2(state.m, state.l));
  }
}

/// By the last block: a warp a head, its lanes along the features.
template <int kHeadDim, class Scores>
__device__ void merge_splits(const Params& p, float (*weight)[kMaxDecodeSplits], int first_head, int n_group,
                             int n_used) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int g = warp; g < n_group; g += kWarps) {
    const long long first = static_cast<long long>(first_head + g) * p.n_splits;
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
    if (lane < kHeadDim / 4) {
      const auto* parts = reinterpret_cast<const float4*>(p.partial + first * kHeadDim) + lane;
      float4 o = {0, 0, 0, 0};
#pragma unroll 8
      for (int s = 0; s < n_used; ++s) {
        const float4 part = __ldcg(parts + s * (kHeadDim / 4));
        o.x += weight[warp][s] * part.x;
        o.y += weight[warp][s] * part.y;
        o.z += weight[warp][s] * part.z;
        o.w += weight[warp][s] * part.w;
      }
      write_result<__nv_bfloat16, Scores>(p.args, first_head + g, 4 * lane, kHeadDim, o.x, state);
      write_result<__nv_bfloat16, Scores>(p.args, first_head + g, 4 * lane + 1, kHeadDim, o.y, state);
      write_result<__nv_bfloat16, Scores>(p.args, first_head + g, 4 * lane + 2, kHeadDim, o.z, state);
      write_result<__nv_bfloat16, Scores>(p.args, first_head + g, 4 * lane + 3, kHeadDim, o.w, state);
    }
    __syncwarp();
  }
}

// One block per (split, KV head and part of its group, row).
template <int kHeadDim, class Scores, int kRows>
__global__ void __launch_bounds__(kThreads)
    decode_split_mma_kernel(const __grid_constant__ RowArgs<Params, kRows> rows_of_launch, Scores scores) {
  const Params& p = rows_of_launch.of(blockIdx.z);
  extern __shared__ __align__(128) char dynamic[];
  __shared__ float weight[kWarps][kMaxDecodeSplits];
  __shared__ bool is_last;
  static_assert(sizeof(Results<kHeadDim>) <= sizeof(Shared<kHeadDim>));
  auto& shared = *reinterpret_cast<Shared<kHeadDim>*>(dynamic);
  auto& results = *reinterpret_cast<Results<kHeadDim>*>(dynamic);
  const SlotCacheView& cache = p.args.cache;
  const int warp = threadIdx.x / 32;
  const int kv_head = blockIdx.y / p.n_parts, part = blockIdx.y % p.n_parts;
  const int n_group = min(kHeads, p.group_size - part * kHeads);
  const int first_head = kv_head * p.group_size + part * kHeads;

  let_next_start();
  prefetch_first_tiles<kHeadDim>(cache, kv_head, warp);
  wait_for_previous();
  const int n_slots = cache.n_slots[kv_head];
  const int n_tiles = (n_slots + kSlots - 1) / kSlots;
  // Blocks that share the slots: a number that depends on this head alone, so that a row among others gets the same sums.
  const int n_used = max(1, min(p.n_splits, (n_tiles + kLeastTiles - 1) / kLeastTiles));
  if (static_cast<int>(blockIdx.x) >= n_used) return;

  unsigned q[kHeadDim / 16][4];
  load_queries<kHeadDim>(p, first_head, n_group, q);
  Running<kHeadDim> running;
  const int stride = n_used * kWarps;
  int ahead = blockIdx.x * kWarps + warp, stage = 0;  // the next tile to ask for, and where it goes
  Tile next = look_up(cache, kv_head, n_slots, ahead);
  const auto fetch_next = [&] {
    if (ahead < n_tiles) fetch<kHeadDim>(cache, next, warp, stage, shared);
    end_copy_group();
    ahead += stride;
    stage = stage + 1 == kStages ? 0 : stage + 1;
    next = look_up(cache, kv_head, n_slots, ahead);
  };
  for (int i = 0; i < kStages - 1; ++i) fetch_next();
  int ready = 0;
  for (int tile = blockIdx.x * kWarps + warp; tile < n_tiles; tile += stride) {
    fetch_next();
    wait_copy_groups<kStages - 1>();
    __syncwarp();
    running.add(&shared.tile[warp][ready][0][0][0], &shared.tile[warp][ready][1][0][0], shared.taken[warp][ready], q,
                scores);
    ready = ready + 1 == kStages ? 0 : ready + 1;
    __syncwarp();  // the stage may be filled again
  }
  wait_copy_groups<0>();
  __syncthreads();  // the tiles' memory becomes that of the results
  running.store(results, warp, n_group);
  __syncthreads();
  merge_warps<kHeadDim, Scores>(p, results, first_head, n_group, n_used);
  if (n_used == 1) return;

  __threadfence();  // this block's part is seen before its count
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicInc(p.counter + blockIdx.y, n_used - 1) == static_cast<unsigned>(n_used - 1);
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  merge_splits<kHeadDim, Scores>(p, weight, first_head, n_group, n_used);
}

}  // namespace mma_split
}  // namespace kvscope::kernels
