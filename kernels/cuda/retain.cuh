#pragma once
// The retention decision of one KV head by one block: all threads look for the weakest token, one decides.
// Serves retain_step and admit_step.

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/rule/retain.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// What a weakest that is no more leaves to the search for the next.
__device__ inline float next_of(const Contender& loser) {
  return loser.position < 0 ? INFINITY : compared(loser.effective);
}

/// Both `merge` and `leaves_before` are independent of order, so the result is that of the serial scan, bit for bit.
__device__ inline Scan merge(const Scan& a, const Scan& b) {
  const bool is_b = leaves_before(b.weakest, a.weakest);
  return {is_b ? b.weakest : a.weakest, a.n_long_range + b.n_long_range, max(a.newcomer_slot, b.newcomer_slot),
          fminf(fminf(a.next, b.next), next_of(is_b ? a.weakest : b.weakest))};
}

__device__ inline Scan from_lane(const Scan& scan, int offset) {
  return {{__shfl_xor_sync(kFullWarp, scan.weakest.effective, offset),
           __shfl_xor_sync(kFullWarp, scan.weakest.position, offset),
           __shfl_xor_sync(kFullWarp, scan.weakest.slot, offset)},
          __shfl_xor_sync(kFullWarp, scan.n_long_range, offset),
          __shfl_xor_sync(kFullWarp, scan.newcomer_slot, offset),
          __shfl_xor_sync(kFullWarp, scan.next, offset)};
}

/// This thread's share of the slots, some at a time: their loads wait for one another's memory together.
template <int kThreads>
__device__ Scan scan_slots(const SlotCacheView& cache, const HeadContest& contest, std::int64_t row, int n_slots) {
  constexpr int kAtOnce = 4;
  const std::int32_t newcomer = contest.newcomer(), end = contest.end();
  const bool has_search = contest.has_search();
  Scan scan = nothing_found();
  for (int first = threadIdx.x; first < n_slots; first += kAtOnce * kThreads) {
    std::int32_t token[kAtOnce];
    float priority[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int slot = first + i * kThreads;
      token[i] = slot < n_slots ? cache.slot_position[row + slot] : -1;
      priority[i] = has_search && slot < n_slots ? cache.slot_priority[row + slot] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int32_t t = token[i], slot = first + i * kThreads;
      if (t < 0) continue;  // a free slot, or none
      if (t == newcomer) scan.newcomer_slot = slot;
      if (!has_search || t < contest.policy.n_sink || t >= end) continue;
      ++scan.n_long_range;
      const Contender one = {contest.effective(priority[i], t), t, slot};
      const bool is_weakest = leaves_before(one, scan.weakest);
      scan.next = fminf(scan.next, next_of(is_weakest ? scan.weakest : one));
      if (is_weakest) scan.weakest = one;
    }
  }
  return scan;
}

/// Asks for what the search for `head` will read, by all threads of a block of kThreads. Safe before the kernel before has
/// ended: an old n_slots, which must not stay in the first-level cache, only asks for less.
template <int kThreads>
__device__ void prefetch_slots(const SlotCacheView& cache, int head) {
  const std::int64_t row = slot_row(cache, head);
  const std::int32_t n_slots = __ldcg(cache.n_slots + head);
  for (int slot = threadIdx.x * 32; slot < n_slots; slot += kThreads * 32) {
    prefetch_to_l2(cache.slot_position + row + slot);
    prefetch_to_l2(cache.slot_priority + row + slot);
    prefetch_to_l2(cache.page_table + static_cast<std::int64_t>(head) * cache.max_pages + slot / cache.page_size);
  }
}

/// The search for `head`, all that needs no score of the newcomer's: all threads of a block of kThreads call it, `of_warp` is
/// kThreads / 32 Scans of shared memory. A __syncthreads() must follow.
template <int kThreads>
__device__ void search_slots(const SlotCacheView& cache, const HeadContest& contest, int head, std::int32_t n_slots,
                             Scan* of_warp) {
  const std::int64_t row = slot_row(cache, head);
  Scan scan = nothing_found();
  if (contest.is_due(n_slots)) {
    scan.newcomer_slot = known_slot(contest, head, cache.slot_position + row, n_slots);
    if (scan.newcomer_slot < 0) scan = scan_slots<kThreads>(cache, contest, row, n_slots);
  }
  for (int offset = 16; offset > 0; offset /= 2) scan = merge(scan, from_lane(scan, offset));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = scan;
}

/// What the warps have found.
template <int kThreads>
__device__ Scan merged(const Scan* of_warp) {
  Scan scan = of_warp[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) scan = merge(scan, of_warp[warp]);
  return scan;
}

/// What follows, by one thread; n_slots is counted up where the token takes a fresh slot.
__device__ inline RetainDecision decide_found(const SlotCacheView& cache, const HeadContest& contest, int head,
                                              const Scan& scan, std::int32_t n_slots) {
  std::int32_t counted = n_slots;
  const RetainDecision decision = decide(contest, scan, cache.slot_priority + slot_row(cache, head), &counted);
  if (counted != n_slots) cache.n_slots[head] = counted;
  if (std::int32_t* cell = recent_cell(contest, head, contest.position)) *cell = decision.slot;
  return decision;
}

}  // namespace kvscope::kernels
