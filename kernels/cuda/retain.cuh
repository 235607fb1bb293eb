#pragma once
// The retention decision of one KV head by one block: all threads look for the weakest token, the first one decides.
// Serves retain_step and admit_step.

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/slots.cuh"
#include "kernels/retain_rule.h"
#include "kernels/retain_step.h"

namespace kvscope::kernels {

/// The rule of one head, as both kernels have it.
struct RetainRuleArgs {
  RetainRule rule;
  float score;  // raw score of the newcomer
  float log_gamma;
  float threshold;
  bool strict;
  std::int32_t position;
  int n_sink;
  int window;
  int top_k;
  int protect;
  int decay_stride;
};

/// `args` are RetainStepArgs or AdmitStepArgs.
template <typename Args>
__device__ RetainRuleArgs rule_of(const Args& args, int head, std::int32_t position, float score) {
  return {.rule = args.rule,
          .score = score,
          .log_gamma = args.log_gamma ? args.log_gamma[head] : 0.0f,
          .threshold = threshold_of(args, head),
          .strict = args.strict,
          .position = position,
          .n_sink = args.n_sink,
          .window = args.window,
          .top_k = top_k_of(args, head),
          .protect = args.protect,
          .decay_stride = args.decay_stride};
}

/// What one thread, one warp, then the block knows about a head's slots.
struct Scan {
  Contender weakest;           // of those who may leave, other than the newcomer (rule least: whoever it is)
  std::int32_t n_long_range;   // how many there are
  std::int32_t newcomer_slot;  // -1 if not seen
};

/// Both `merge` and `leaves_before` are independent of order, so the result is that of the serial scan, bit for bit.
__device__ inline Scan merge(const Scan& a, const Scan& b) {
  return {leaves_before(b.weakest, a.weakest) ? b.weakest : a.weakest, a.n_long_range + b.n_long_range,
          max(a.newcomer_slot, b.newcomer_slot)};
}

__device__ inline Scan from_lane(const Scan& scan, int offset) {
  return {{__shfl_xor_sync(kFullWarp, scan.weakest.effective, offset),
           __shfl_xor_sync(kFullWarp, scan.weakest.position, offset),
           __shfl_xor_sync(kFullWarp, scan.weakest.slot, offset)},
          __shfl_xor_sync(kFullWarp, scan.n_long_range, offset),
          __shfl_xor_sync(kFullWarp, scan.newcomer_slot, offset)};
}

/// This thread's share of the slots.
template <int kThreads>
__device__ Scan scan_slots(const SlotCacheView& cache, const RetainRuleArgs& args, long long row, int n_slots) {
  const bool is_least = args.rule == RetainRule::least, has_contest = is_least || args.rule == RetainRule::top_k;
  const std::int32_t newcomer = args.position - (is_least ? 1 : args.window);
  const std::int32_t end = is_least ? args.position - args.protect : newcomer;
  const float log_gamma = is_least ? 0.0f : args.log_gamma;
  Scan scan = {{0, -1, -1}, 0, -1};
  for (int slot = threadIdx.x; slot < n_slots; slot += kThreads) {
    const std::int32_t t = cache.slot_position[row + slot];
    if (t == newcomer) scan.newcomer_slot = slot;
    if (!has_contest || t < args.n_sink || t >= end) continue;
    ++scan.n_long_range;
    const float score = cache.slot_priority[row + slot];
    const Contender one = {effective_at(score, t, args.position, log_gamma, args.decay_stride), t, slot};
    if (leaves_before(one, scan.weakest)) scan.weakest = one;
  }
  return scan;
}

/// All rules but least: what happens to the newcomer, by one thread. Writes the newcomer's score to its slot.
__device__ inline RetainDecision decide(const SlotCacheView& cache, const RetainRuleArgs& args, long long row,
                                        const Scan& scan) {
  RetainDecision decision = {-1, -1, 0, 0, 0, -1, -1};
  if (scan.newcomer_slot < 0) return decision;
  const std::int32_t newcomer = args.position - args.window;
  decision.newcomer = newcomer;
  Contender gone = {0, newcomer, scan.newcomer_slot};
  if (args.rule != RetainRule::window) {
    cache.slot_priority[row + scan.newcomer_slot] = args.score;
    gone.effective = effective_at(args.score, newcomer, args.position, args.log_gamma, args.decay_stride);
    decision.newcomer_score = args.score;
    decision.newcomer_effective = gone.effective;
  }
  if (args.rule == RetainRule::threshold && passes(args.score, args.threshold, args.strict)) return decision;
  if (args.rule == RetainRule::top_k) {
    if (scan.n_long_range < args.top_k) return decision;
    if (scan.weakest.position >= 0) {
      decision.boundary = scan.weakest.position;
      decision.boundary_effective = scan.weakest.effective;
      if (leaves_before(scan.weakest, gone)) gone = scan.weakest;
    }
  }
  decision.evicted = gone.position;
  decision.slot = gone.slot;
  return decision;
}

/// Rule least, by one thread.
__device__ inline RetainDecision decide_least(const SlotCacheView& cache, const RetainRuleArgs& args, long long row,
                                              const Scan& scan) {
  RetainDecision decision = {-1, -1, 0, 0, 0, -1, -1};
  if (scan.weakest.position < 0) return decision;
  if (scan.newcomer_slot >= 0) {
    decision.newcomer = args.position - 1;
    decision.newcomer_score = decision.newcomer_effective = cache.slot_priority[row + scan.newcomer_slot];
  }
  decision.boundary = decision.evicted = scan.weakest.position;
  decision.boundary_effective = cache.slot_priority[row + scan.weakest.slot];
  decision.slot = scan.weakest.slot;
  return decision;
}

/// Whether anybody can leave at all: if not, no slot needs to be looked at.
__device__ inline bool is_due(const RetainRuleArgs& args, int n_slots) {
  if (args.rule == RetainRule::least) return n_slots > capacity_of(args.n_sink, args.window, args.top_k);
  return args.rule != RetainRule::keep_all && args.position - args.window >= args.n_sink;
}

/// The whole of it for `head`: all threads of a block of kThreads call it, `of_warp` is kThreads / 32 Scans of shared
/// memory. The decision is that of thread 0 alone (the others' is empty); n_slots has been counted up where the token
/// takes a fresh slot.
template <int kThreads>
__device__ RetainDecision retain(const SlotCacheView& cache, const RetainRuleArgs& args, int head, Scan* of_warp) {
  const long long row = slot_row(cache, head);
  const int n_slots = cache.n_slots[head];
  Scan scan = scan_slots<kThreads>(cache, args, row, is_due(args, n_slots) ? n_slots : 0);
  for (int offset = 16; offset > 0; offset /= 2) scan = merge(scan, from_lane(scan, offset));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = scan;
  __syncthreads();  // also: every thread has read n_slots before it changes
  if (threadIdx.x != 0) return {};
  for (int warp = 1; warp < kThreads / 32; ++warp) scan = merge(scan, of_warp[warp]);
  const bool is_least = args.rule == RetainRule::least;
  RetainDecision decision = is_least ? decide_least(cache, args, row, scan) : decide(cache, args, row, scan);
  if (decision.slot < 0) {
    decision.slot = n_slots;
    cache.n_slots[head] = n_slots + 1;
  }
  if (is_least) cache.slot_priority[row + decision.slot] = 0;
  return decision;
}

}  // namespace kvscope::kernels
