#include <algorithm>

#include "kernels/attention_mass.h"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/score_variant.cuh"
#include "kernels/slot_cache.h"

// A warp takes 16 slots of a KV head: eight lanes share a key, which stays in registers while the queries of the group
// go by (they are few, and in the first-level cache after the first slots). Each slot's number is made by one warp in
// one order.

namespace kvscope::kernels {
namespace {

constexpr int kSlots = 16;                         // of a warp
constexpr int kLanesPerKey = 8;                    // lanes that share a key
constexpr int kKeys = kSlots * kLanesPerKey / 32;  // slots of a lane: first + 4 k + lane / 8
constexpr int kSumThreads = 128;
constexpr int kLastThreads = 256;
constexpr int kMaxBlocks = 256;  // of a KV head (sum, mean) or of all (last); then blocks take several tiles

/// Slot k of this lane.
__device__ inline int slot_of(int first_slot, int k) {
  return first_slot + k * (32 / kLanesPerKey) + static_cast<int>(threadIdx.x % 32) / kLanesPerKey;
}

/// Position of the token in a slot, -1 if it is free or past the end.
__device__ inline int position_in(const SlotCacheView& cache, int kv_head, int n_slots, int slot) {
  return slot < n_slots ? cache.slot_position[slot_row(cache, kv_head) + slot] : -1;
}

/// mass[k]: sum of p over the group's query heads, for slot k of this lane (all eight lanes of the key know it); 0
/// where position[k] is -1. All lanes of the warp must call it.
template <typename T, int kHeadDim, class Scores>
__device__ void group_mass(const AttentionMassArgs& args, const Scores& scores, int kv_head, int first_slot,
                           const int (&position)[kKeys], float (&mass)[kKeys]) {
  constexpr int kChunk = Chunk<T>::kSize;
  constexpr int kChunks = kHeadDim / kChunk;  // 16-byte chunks of a row
  constexpr int kPerLane = (kChunks + kLanesPerKey - 1) / kLanesPerKey;
  const SlotCacheView& cache = args.cache;
  const int lane = threadIdx.x % kLanesPerKey;
  const int group_size = args.n_heads / cache.n_kv_heads;

  // All of the warp's keys are on their way before the first is used. Free slots become zeros: what lies in them may be
  // NaN.
  Chunk<T> key[kKeys][kPerLane];
#pragma unroll
  for (int k = 0; k < kKeys; ++k) {
    const bool taken = position[k] >= 0;
    const T* row =
        static_cast<const T*>(cache.k_pool) + (taken ? slot_offset(cache, kv_head, slot_of(first_slot, k)) : 0);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int chunk = lane + kLanesPerKey * i;
      key[k][i] = taken && chunk < kChunks ? load_chunk(row + chunk * kChunk) : Chunk<T>{};
    }
    mass[k] = 0;
  }
  for (int g = 0; g < group_size; ++g) {
    const int head = kv_head * group_size + g;
    const T* q = static_cast<const T*>(args.q) + static_cast<long long>(head) * kHeadDim;
    float dot[kKeys] = {};
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int chunk = lane + kLanesPerKey * i;
      if (chunk >= kChunks) break;
      const Chunk<T> query = load_chunk(q + chunk * kChunk);
#pragma unroll
      for (int k = 0; k < kKeys; ++k) {
#pragma unroll
        for (int e = 0; e < kChunk; ++e) dot[k] += to_float(query.element[e]) * to_float(key[k][i].element[e]);
      }
    }
    const float lse = args.lse[head];
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      for (int offset = kLanesPerKey / 2; offset > 0; offset /= 2) {
        dot[k] += __shfl_xor_sync(kFullWarp, dot[k], offset);
      }
      if (position[k] >= 0) mass[k] += expf(scores.score(dot[k]) - lse);
    }
  }
}

// Rules sum and mean. A block of four warps takes 64 slots of a KV head (blockIdx.y) at a time.
template <typename T, int kHeadDim, class Scores>
__global__ void __launch_bounds__(kSumThreads) sum_kernel(AttentionMassArgs args, Scores scores) {
  constexpr int kWarps = kSumThreads / 32;
  let_next_start();
  wait_for_previous();
  const SlotCacheView& cache = args.cache;
  const int kv_head = blockIdx.y;
  const int n_slots = cache.n_slots[kv_head];
  const int newest = *args.position;
  const auto group_size = static_cast<float>(args.n_heads / cache.n_kv_heads);
  float* priority = cache.slot_priority + slot_row(cache, kv_head);
  const int step = gridDim.x * kWarps * kSlots;
  for (int first = (blockIdx.x * kWarps + threadIdx.x / 32) * kSlots; first < n_slots; first += step) {
    int position[kKeys];
    float mass[kKeys];
#pragma unroll
    for (int k = 0; k < kKeys; ++k) position[k] = position_in(cache, kv_head, n_slots, slot_of(first, k));
    group_mass<T, kHeadDim>(args, scores, kv_head, first, position, mass);
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      if (threadIdx.x % kLanesPerKey != 0 || position[k] < 0) continue;
      const int slot = slot_of(first, k);
      priority[slot] = priority_after(args.rule, priority[slot], mass[k] / group_size, position[k], newest);
    }
  }
}

// Rule last. A block takes 16 slots of all KV heads at a time: warp w heads w, w + 8, ...
template <typename T, int kHeadDim, class Scores>
__global__ void __launch_bounds__(kLastThreads) last_kernel(AttentionMassArgs args, Scores scores) {
  constexpr int kWarps = kLastThreads / 32;
  __shared__ float of_warp[kWarps][kSlots];
  let_next_start();
  wait_for_previous();
  const SlotCacheView& cache = args.cache;
  const int warp = threadIdx.x / 32;
  const int n_slots = cache.n_slots[0];  // every head's
  for (int first = blockIdx.x * kSlots; first < n_slots; first += gridDim.x * kSlots) {
    float sum[kKeys] = {};
    for (int kv_head = warp; kv_head < cache.n_kv_heads; kv_head += kWarps) {
      int position[kKeys];
      float mass[kKeys];
#pragma unroll
      for (int k = 0; k < kKeys; ++k) {
        position[k] = position_in(cache, kv_head, cache.n_slots[kv_head], slot_of(first, k));
      }
      group_mass<T, kHeadDim>(args, scores, kv_head, first, position, mass);
#pragma unroll
      for (int k = 0; k < kKeys; ++k) sum[k] += mass[k];
    }
    __syncthreads();  // the last tile's sums have been read
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      if (threadIdx.x % kLanesPerKey == 0) of_warp[warp][slot_of(0, k)] = sum[k];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < cache.n_kv_heads * kSlots; i += kLastThreads) {
      const int kv_head = i / kSlots, slot = first + i % kSlots;
      if (position_in(cache, kv_head, cache.n_slots[kv_head], slot) < 0) continue;
      float of_layer = 0;
      for (int w = 0; w < kWarps; ++w) of_layer += of_warp[w][i % kSlots];
      cache.slot_priority[slot_row(cache, kv_head) + slot] = of_layer / static_cast<float>(args.n_heads);
    }
  }
}

}  // namespace

void cuda::attention_mass(const AttentionMassArgs& args, Stream stream) {
  require_alignment("attention_mass", "cache.k_pool", args.cache.k_pool);
  require_alignment("attention_mass", "q", args.q);
  const int capacity = args.cache.max_pages * args.cache.page_size;
  const auto blocks = [&](int slots) { return std::min((capacity + slots - 1) / slots, kMaxBlocks); };
  dispatch_dtype(args.cache.dtype, [&]<typename T>() {
    dispatch_head_dim("attention_mass", args.cache.head_dim, [&]<int kHeadDim>() {
      dispatch_soft_cap(args.scale, args.soft_cap, 1, [&]<class Scores>(const Scores& scores) {
        if (args.rule != MassRule::last) {
          const dim3 grid(blocks(kSumThreads / 32 * kSlots), args.cache.n_kv_heads);
          launch_dependent(sum_kernel<T, kHeadDim, Scores>, grid, kSumThreads, 0, stream, args, scores);
        } else {
          launch_dependent(last_kernel<T, kHeadDim, Scores>, dim3(blocks(kSlots)), kLastThreads, 0, stream, args,
                           scores);
        }
      });
    });
  });
}

}  // namespace kvscope::kernels
