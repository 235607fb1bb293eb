#include "kernels/retain_step.h"

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

Scan scan_slots(const RetainStepArgs& args, std::int64_t row, std::int32_t n_slots, std::int32_t newcomer,
                float log_gamma) {
  const std::int32_t* position = args.cache.slot_position + row;
  Scan scan;
  for (std::int32_t slot = 0; slot < n_slots; ++slot) {
    const std::int32_t t = position[slot];
    if (t == newcomer) scan.newcomer_slot = slot;
    if (args.rule != RetainRule::top_k || t < args.n_sink || t >= newcomer) continue;
    ++scan.n_long_range;
    const float score = args.cache.slot_priority[row + slot];
    const Contender one = {effective_at(score, t, args.position, log_gamma, args.decay_stride), t, slot};
    if (leaves_before(one, scan.weakest)) scan.weakest = one;
  }
  return scan;
}

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
  if (args.rule == RetainRule::threshold && score >= args.threshold) return decision;
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

}  // namespace

RetainDecision retain_head(const RetainStepArgs& args, int head, float score) {
  RetainDecision decision = decide(args, head, score);
  if (decision.slot < 0) decision.slot = args.cache.n_slots[head]++;
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
