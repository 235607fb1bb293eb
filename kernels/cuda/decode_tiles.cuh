#pragma once
// The tiles of the split attention on their way: where they are in the pools, and what a block keeps of them in shared
// memory.

#include <cuda_bf16.h>

#include <algorithm>

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/decode_walk.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/softmax_state.cuh"
#include "kernels/slot_cache.h"

namespace kvscope::kernels::mma_split {

/// Tiles of a warp on their way. Of wide heads two, so that a block has no more than 135 kB.
template <int kHeadDim>
constexpr int kStages = kHeadDim > 128 ? 2 : 3;
/// Query heads of a block: eight, or twice eight where the registers allow it.
constexpr int most_heads(int head_dim) { return head_dim > 128 ? 8 : 16; }

template <int kHeadDim>
struct Shared {
  static constexpr int kStride = kHeadDim + 8;  // 16 bytes of padding: neighbouring rows fall into different banks
  __nv_bfloat16 tile[kWarps][kStages<kHeadDim>][2][kSlots][kStride];  // keys, values
  unsigned taken[kWarps][kStages<kHeadDim>];                          // bit s: slot s of the tile holds a token
};
/// Blocks that a multiprocessor of compute capability 9 has room for, beside 2 kB for each that are not its tiles; four of
/// them leave too few registers for sixteen heads.
template <int kHeadDim, int kEights>
constexpr unsigned kBlocksAtOnce = std::min<unsigned>(227 * 1024 / (sizeof(Shared<kHeadDim>) + 2048), 5 - kEights);

/// Of several rows. Few parts keep a block each; more of them are shared by as many blocks as have room at once, or by a
/// few less: if heads are of equal length, pieces that end where heads end spare half of the merges (measured on an H200,
/// Qwen3-8B shapes, us a layer of 16 sequences of 2,048 tokens: 256 blocks 47.1, 264 blocks 49.9).
inline dim3 grid_of_pieces(dim3 parts, unsigned room) {
  const unsigned n_heads = parts.y * parts.z;
  if (parts.x * n_heads <= 2 * room) return parts;
  const unsigned whole = room / n_heads * n_heads;
  return dim3(whole >= room - room / 10 ? whole : room);
}

/// What a warp found in a part lies in the stage whose tile it used last, until the next one is asked for.
template <int kHeadDim>
struct Found {
  static constexpr int kHeads = most_heads(kHeadDim);
  float o[kHeads][kHeadDim + 4];  // 16 bytes of padding: a warp writes eight features of four heads at once
  SoftmaxState state[kHeads];

  __device__ static Found& of(Shared<kHeadDim>& shared, int warp, int stage) {
    static_assert(sizeof(Found) <= sizeof(shared.tile[0][0]));
    return *reinterpret_cast<Found*>(&shared.tile[warp][stage]);
  }
};

/// Where the slots of a head are.
struct Source {
  const std::int32_t* page;
  const std::int32_t* position;
  const char* pool[2];  // keys, values
  int max_pages;

  __device__ Source(const SlotCacheView& cache, int kv_head)
      : page(cache.page_table + static_cast<long long>(kv_head) * cache.max_pages),
        position(cache.slot_position + slot_row(cache, kv_head)),
        pool{static_cast<const char*>(cache.k_pool), static_cast<const char*>(cache.v_pool)},
        max_pages(cache.max_pages) {}
};

/// Where a tile is and who is in it; looked up one tile ahead, since the loads depend on it. Three ahead, by way of shared
/// memory, was no faster for 16 sequences of 2,048 tokens (49.7 us for 48.8) and slower for one (8.6 for 7.6).
struct Tile {
  std::int32_t page;
  std::int32_t position;  // of slot lane % 16; -1: free
};

/// Whether or not slots are in use, so that this need not wait for n_slots.
__device__ inline Tile look_up(const Source& source, int tile) {
  if (tile >= source.max_pages) return {0, -1};
  return {source.page[tile], source.position[tile * kSlots + threadIdx.x % kSlots]};
}

/// While the kernel before still decides where the new token goes: brings this warp's first tile nearer. Of what it may
/// be writing only the page table is read (select_pages writes one); an old page or none only costs a request.
template <int kHeadDim>
__device__ inline void prefetch_tile(const Source& source, int tile) {
  if (tile >= source.max_pages) return;
  const long long at = static_cast<long long>(source.page[tile]) * (kSlots * kHeadDim * 2);
  for (int line = threadIdx.x % 32; line < kSlots * kHeadDim * 2 / 128; line += 32) {
    prefetch_to_l2(source.pool[0] + at + line * 128);
    prefetch_to_l2(source.pool[1] + at + line * 128);
  }
}

/// Asks for a tile's keys and values, of which `n_slots` may be in use. Rows of free slots become zeros: what lies there
/// may be NaN, and 0 * NaN is NaN. What is read once leaves the second-level cache to the partial results (16 sequences of
/// 2,048 tokens 44.2 us for 45.9).
template <int kHeadDim>
__device__ inline void fetch(const Source& source, const Tile& where, int n_slots, int warp, int stage,
                             Shared<kHeadDim>& shared) {
  constexpr unsigned kChunks = kHeadDim / 8;
  const unsigned lane = threadIdx.x % 32;
  const bool is_taken = where.position >= 0 && static_cast<int>(lane % kSlots) < n_slots;
  const unsigned taken = __ballot_sync(kFullWarp, is_taken) & 0xffffu;
  if (lane == 0) shared.taken[warp][stage] = taken;
  const long long at = static_cast<long long>(where.page) * (kSlots * kHeadDim * 2) + lane * 16;
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const char* rows = source.pool[part] + at;
#pragma unroll
    for (unsigned i = 0; i < kSlots * kChunks / 32; ++i) {
      const unsigned row = (lane + 32 * i) / kChunks, column = (lane + 32 * i) % kChunks * 8;
      copy_16_once_async(&shared.tile[warp][stage][part][row][column], rows + 512 * i, taken >> row & 1);
    }
  }
}

}  // namespace kvscope::kernels::mma_split
