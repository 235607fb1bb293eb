#include "kernels/cuda/check.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/slots.cuh"
#include "kernels/retain_rule.h"
#include "kernels/retain_step.h"
#include "kernels/validate.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

/// What one thread, one warp, then the block knows about a head's slots.
struct Scan {
  Contender weakest;           // of the long-range tokens other than the newcomer
  std::int32_t n_long_range;   // how many there are
  std::int32_t newcomer_slot;  // -1 if not seen
};

/// Both `merge` and `leaves_before` are independent of order, so the result is that of the serial scan, bit for bit.
__device__ Scan merge(const Scan& a, const Scan& b) {
  return {leaves_before(b.weakest, a.weakest) ? b.weakest : a.weakest, a.n_long_range + b.n_long_range,
          max(a.newcomer_slot, b.newcomer_slot)};
}

__device__ Scan from_lane(const Scan& scan, int offset) {
  return {{__shfl_xor_sync(kFullWarp, scan.weakest.effective, offset),
           __shfl_xor_sync(kFullWarp, scan.weakest.position, offset),
           __shfl_xor_sync(kFullWarp, scan.weakest.slot, offset)},
          __shfl_xor_sync(kFullWarp, scan.n_long_range, offset),
          __shfl_xor_sync(kFullWarp, scan.newcomer_slot, offset)};
}

/// This thread's share of the slots.
__device__ Scan scan_slots(const RetainStepArgs& args, long long row, int n_slots, std::int32_t newcomer,
                           float log_gamma) {
  Scan scan = {{0, -1, -1}, 0, -1};
  for (int slot = threadIdx.x; slot < n_slots; slot += kThreads) {
    const std::int32_t t = args.cache.slot_position[row + slot];
    if (t == newcomer) scan.newcomer_slot = slot;
    if (args.rule != RetainRule::top_k || t < args.n_sink || t >= newcomer) continue;
    ++scan.n_long_range;
    const float score = args.cache.slot_priority[row + slot];
    const Contender one = {effective_at(score, t, args.position, log_gamma, args.decay_stride), t, slot};
    if (leaves_before(one, scan.weakest)) scan.weakest = one;
  }
  return scan;
}

/// The decision of one head, by one thread. Writes the newcomer's score to its slot.
__device__ RetainDecision decide(const RetainStepArgs& args, int head, long long row, const Scan& scan,
                                 std::int32_t newcomer, float log_gamma) {
  RetainDecision decision = {-1, -1, 0, 0, 0, -1, -1};
  if (scan.newcomer_slot < 0) return decision;
  decision.newcomer = newcomer;
  Contender gone = {0, newcomer, scan.newcomer_slot};
  if (args.rule != RetainRule::window) {
    const float score = args.score[head];
    args.cache.slot_priority[row + scan.newcomer_slot] = score;
    gone.effective = effective_at(score, newcomer, args.position, log_gamma, args.decay_stride);
    decision.newcomer_score = score;
    decision.newcomer_effective = gone.effective;
  }
  if (args.rule == RetainRule::threshold && args.score[head] >= args.threshold) return decision;
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

// One block per KV head: all threads look for the weakest token, the first one decides.
__global__ void retain_step_kernel(RetainStepArgs args) {
  __shared__ Scan of_warp[kWarps];
  const int head = blockIdx.x;
  const long long row = slot_row(args.cache, head);
  const std::int32_t newcomer = args.position - args.window;
  const float log_gamma = args.log_gamma ? args.log_gamma[head] : 0.0f;
  const bool leaves_window = args.rule != RetainRule::keep_all && newcomer >= args.n_sink;
  const int n_slots = args.cache.n_slots[head];

  Scan scan = scan_slots(args, row, leaves_window ? n_slots : 0, newcomer, log_gamma);
  for (int offset = 16; offset > 0; offset /= 2) scan = merge(scan, from_lane(scan, offset));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = scan;
  __syncthreads();  // also: every thread has read n_slots before it changes
  if (threadIdx.x != 0) return;

  for (int warp = 1; warp < kWarps; ++warp) scan = merge(scan, of_warp[warp]);
  RetainDecision decision = decide(args, head, row, scan, newcomer, log_gamma);
  if (decision.slot < 0) {
    decision.slot = n_slots;
    args.cache.n_slots[head] = n_slots + 1;
  }
  args.decision[head] = decision;
  args.slot[head] = decision.slot;
}

}  // namespace

void retain_step(const RetainStepArgs& args, Stream stream) {
  validate(args);
  retain_step_kernel<<<args.cache.n_kv_heads, kThreads, 0, stream>>>(args);
  check_launch();
}

}  // namespace kvscope::kernels
