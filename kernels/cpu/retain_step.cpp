#include "kernels/retain_step.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/heads.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/slots.h"
#include "kernels/retain_rule.h"
#include "kernels/validate.h"

namespace kvscope::kernels::cpu {
namespace {

/// What one pass over a head's slots finds out.
struct Scan {
  std::int32_t newcomer_slot = -1;
  Contender weakest = {0, -1, -1};  // of the long-range tokens other than the newcomer
  std::int32_t n_long_range = 0;
};

constexpr int kBlock = 128;  // slots

/// effective[i]: the effective score of the token in slot i as it is compared (a NaN as -inf), +inf if it is no
/// long-range token (n_sink <= t < end). Returns how many are. Neither branches nor divides integers, so that several
/// slots are done at once: cut off, the quotient of two int32 in double precision is that of the integers.
KVSCOPE_CLONES int effective_scores(const RetainStepArgs& args, const std::int32_t* position, const float* priority,
                                    int n, std::int32_t end, float log_gamma, float* effective) {
  const std::int32_t q = args.position, n_sink = args.n_sink;
  const double stride = args.decay_stride;
  int n_long_range = 0;
  for (int i = 0; i < n; ++i) {
    const std::int32_t t = position[i];
    const float decay = static_cast<float>(static_cast<std::int32_t>((q - t) / stride)) * log_gamma;
    const float score = priority[i] + decay;
    const bool is_long_range = (t >= n_sink) & (t < end);
    n_long_range += is_long_range;
    effective[i] = is_long_range ? (score == score ? score : -INFINITY) : INFINITY;
  }
  return n_long_range;
}

/// The least of a block. Independent minima, which go into vectors.
KVSCOPE_CLONES float least_of(const float* x) {
  constexpr int kLanes = 16;
  float lane[kLanes];
  for (int j = 0; j < kLanes; ++j) lane[j] = x[j];
  for (int i = kLanes; i < kBlock; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lane[j] = x[i + j] < lane[j] ? x[i + j] : lane[j];
  }
  return *std::min_element(lane, lane + kLanes);
}

/// The same for slots first ... first + n - 1 of a scan: whoever is the least of them is compared with the weakest so
/// far.
void scan_block(const RetainStepArgs& args, std::int64_t row, std::int32_t first, int n, std::int32_t end,
                float log_gamma, Scan& scan) {
  const std::int32_t* position = args.cache.slot_position + row + first;
  const float* priority = args.cache.slot_priority + row + first;
  float effective[kBlock];
  const int n_long_range = effective_scores(args, position, priority, n, end, log_gamma, effective);
  if (n_long_range == 0) return;
  scan.n_long_range += n_long_range;
  std::fill(effective + n, effective + kBlock, INFINITY);
  const float least = least_of(effective);
  if (scan.weakest.position >= 0 && least > scan.weakest.effective) return;
  for (int i = 0; i < n; ++i) {
    const std::int32_t t = position[i];
    if (effective[i] != least || t < args.n_sink || t >= end) continue;
    const Contender one = {effective_at(priority[i], t, args.position, log_gamma, args.decay_stride), t, first + i};
    if (leaves_before(one, scan.weakest)) scan.weakest = one;
  }
}

/// The weakest of n_sink <= t < end.
void scan_contenders(const RetainStepArgs& args, std::int64_t row, std::int32_t n_slots, std::int32_t end,
                     float log_gamma, Scan& scan) {
  for (std::int32_t first = 0; first < n_slots; first += kBlock) {
    scan_block(args, row, first, std::min(kBlock, n_slots - first), end, log_gamma, scan);
  }
}

/// The slot of token t, -1 if it has none.
std::int32_t slot_of(const SlotCacheView& cache, std::int64_t row, std::int32_t n_slots, std::int32_t t) {
  const std::int32_t* position = cache.slot_position + row;
  const std::int32_t* found = std::find(position, position + n_slots, t);
  return found == position + n_slots ? -1 : static_cast<std::int32_t>(found - position);
}

Scan scan_slots(const RetainStepArgs& args, std::int64_t row, std::int32_t n_slots, std::int32_t newcomer,
                float log_gamma) {
  Scan scan;
  scan.newcomer_slot = slot_of(args.cache, row, n_slots, newcomer);
  if (scan.newcomer_slot < 0 || args.rule != RetainRule::top_k) return scan;
  scan_contenders(args, row, n_slots, newcomer, log_gamma, scan);
  return scan;
}

/// All rules but least: what happens to the newcomer.
RetainDecision decide(const RetainStepArgs& args, int head, float score) {
  RetainDecision decision = {.newcomer = -1, .boundary = -1, .evicted = -1, .slot = -1};
  const std::int32_t t = args.position - args.window;
  if (args.rule == RetainRule::keep_all || t < args.n_sink) return decision;
  const float log_gamma = args.log_gamma ? args.log_gamma[head] : 0.0f;
  const std::int64_t row = slot_row(args.cache, head);
  const Scan scan = scan_slots(args, row, args.cache.n_slots[head], t, log_gamma);
  if (scan.newcomer_slot < 0) return decision;

  decision.newcomer = t;
  Contender gone = {0, t, scan.newcomer_slot};
  if (args.rule != RetainRule::window) {
    args.cache.slot_priority[row + scan.newcomer_slot] = score;
    gone.effective = effective_at(score, t, args.position, log_gamma, args.decay_stride);
    decision.newcomer_score = score;
    decision.newcomer_effective = gone.effective;
  }
  if (args.rule == RetainRule::threshold && passes(score, threshold_of(args, head), args.strict)) return decision;
  if (args.rule == RetainRule::top_k) {
    if (scan.n_long_range < top_k_of(args, head)) return decision;
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

/// Rule least.
RetainDecision decide_least(const RetainStepArgs& args, int head) {
  RetainDecision decision = {.newcomer = -1, .boundary = -1, .evicted = -1, .slot = -1};
  const std::int32_t n_slots = args.cache.n_slots[head];
  if (n_slots <= capacity_of(args.n_sink, args.window, top_k_of(args, head))) return decision;
  const std::int64_t row = slot_row(args.cache, head);
  const float* priority = args.cache.slot_priority + row;
  Scan scan;
  scan_contenders(args, row, n_slots, args.position - args.protect, 0, scan);
  if (scan.weakest.position < 0) return decision;
  if (const std::int32_t slot = slot_of(args.cache, row, n_slots, args.position - 1); slot >= 0) {
    decision.newcomer = args.position - 1;
    decision.newcomer_score = decision.newcomer_effective = priority[slot];
  }
  decision.boundary = decision.evicted = scan.weakest.position;
  decision.boundary_effective = priority[scan.weakest.slot];
  decision.slot = scan.weakest.slot;
  return decision;
}

}  // namespace

RetainDecision retain_head(const RetainStepArgs& args, int head, float score) {
  const bool is_least = args.rule == RetainRule::least;
  RetainDecision decision = is_least ? decide_least(args, head) : decide(args, head, score);
  if (decision.slot < 0) decision.slot = args.cache.n_slots[head]++;
  if (is_least) args.cache.slot_priority[slot_row(args.cache, head) + decision.slot] = 0;
  return decision;
}

void retain_step(const RetainStepArgs& args) {
  validate(args);
  const std::int64_t cost = 4L * args.cache.max_pages * args.cache.page_size;
  parallel_for(args.cache.n_kv_heads, cost, [&](std::int64_t head) {
    args.decision[head] = retain_head(args, static_cast<int>(head), args.score ? args.score[head] : 0.0f);
    args.slot[head] = args.decision[head].slot;
  });
}

}  // namespace kvscope::kernels::cpu
