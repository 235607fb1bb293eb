#include "kernels/retain_step.h"

#include "kernels/reference/element.h"
#include "kernels/rule/retain.h"

namespace kvscope::kernels::reference {
namespace {

float threshold_of(const RetainPolicy& policy, int head) {
  return policy.head_threshold ? policy.head_threshold[head] : policy.threshold;
}

std::int32_t top_k_of(const RetainPolicy& policy, int head) {
  return policy.head_top_k ? policy.head_top_k[head] : policy.top_k;
}

std::int32_t slot_of(const SlotCacheView& cache, int head, std::int32_t position) {
  for (std::int32_t slot = 0; slot < cache.n_slots[head]; ++slot) {
    if (cache.slot_position[first_slot_of(cache, head) + slot] == position) return slot;
  }
  return -1;
}

/// The weakest long-range token kept besides the newcomer, and how many there are.
struct LongRange {
  Contender weakest;
  int count;
};

LongRange long_range(const RetainStepArgs& args, int head, std::int32_t newcomer, float log_gamma) {
  const SlotCacheView& cache = args.cache;
  LongRange result = {{0, -1, -1}, 0};
  for (std::int32_t slot = 0; slot < cache.n_slots[head]; ++slot) {
    const std::int32_t t = cache.slot_position[first_slot_of(cache, head) + slot];
    if (t < args.policy.n_sink || t >= newcomer) continue;  // a free slot holds -1 and fails the first test
    ++result.count;
    const float score = cache.slot_priority[first_slot_of(cache, head) + slot];
    const Contender one = {effective_at(score, t, args.position, log_gamma, args.policy.decay_stride), t, slot};
    if (leaves_before(one, result.weakest)) result.weakest = one;
  }
  return result;
}

/// Who leaves the cache; position -1 for nobody. Fills in the contest's part of `decision`.
Contender loser(const RetainStepArgs& args, int head, const Contender& newcomer, float log_gamma,
                RetainDecision& decision) {
  const Contender nobody = {0, -1, -1};
  if (args.policy.rule == RetainRule::window) return newcomer;
  if (args.policy.rule == RetainRule::threshold) {
    return passes(args.score[head], threshold_of(args.policy, head), args.policy.strict) ? nobody : newcomer;
  }
  const LongRange kept = long_range(args, head, newcomer.position, log_gamma);
  if (kept.count < top_k_of(args.policy, head)) return nobody;
  if (kept.weakest.position < 0) return newcomer;  // top_k = 0
  decision.boundary = kept.weakest.position;
  decision.boundary_effective = kept.weakest.effective;
  return leaves_before(newcomer, kept.weakest) ? newcomer : kept.weakest;
}

/// All rules but least: what happens to the newcomer.
RetainDecision decide(const RetainStepArgs& args, int head) {
  const SlotCacheView& cache = args.cache;
  const bool scored = args.policy.rule == RetainRule::threshold || args.policy.rule == RetainRule::top_k;
  RetainDecision decision = {.newcomer = -1, .boundary = -1, .evicted = -1, .slot = -1};
  const float log_gamma = args.policy.log_gamma ? args.policy.log_gamma[head] : 0.0f;
  const std::int32_t t = args.position - args.policy.window;
  const bool leaves_window = args.policy.rule != RetainRule::keep_all && t >= args.policy.n_sink;
  const std::int32_t newcomer_slot = leaves_window ? slot_of(cache, head, t) : -1;
  if (newcomer_slot < 0) return decision;
  decision.newcomer = t;
  if (scored) {
    decision.newcomer_score = args.score[head];
    decision.newcomer_effective = effective_at(args.score[head], t, args.position, log_gamma, args.policy.decay_stride);
    cache.slot_priority[first_slot_of(cache, head) + newcomer_slot] = args.score[head];
  }
  const Contender gone = loser(args, head, {decision.newcomer_effective, t, newcomer_slot}, log_gamma, decision);
  decision.evicted = gone.position;
  decision.slot = gone.slot;
  return decision;
}

/// Rule least.
RetainDecision decide_least(const RetainStepArgs& args, int head) {
  const SlotCacheView& cache = args.cache;
  const float* priority = cache.slot_priority + first_slot_of(cache, head);
  RetainDecision decision = {.newcomer = -1, .boundary = -1, .evicted = -1, .slot = -1};
  if (cache.n_slots[head] <= std::int64_t{args.policy.n_sink} + args.policy.window + top_k_of(args.policy, head))
    return decision;
  Contender gone = {0, -1, -1};
  for (std::int32_t slot = 0; slot < cache.n_slots[head]; ++slot) {
    const std::int32_t t = cache.slot_position[first_slot_of(cache, head) + slot];
    if (t < args.policy.n_sink || t >= args.position - args.policy.protect) continue;
    const Contender one = {priority[slot], t, slot};
    if (leaves_before(one, gone)) gone = one;
  }
  if (gone.position < 0) return decision;
  if (const std::int32_t newcomer_slot = slot_of(cache, head, args.position - 1); newcomer_slot >= 0) {
    decision.newcomer = args.position - 1;
    decision.newcomer_score = priority[newcomer_slot];
  }
  decision.newcomer_effective = NAN;
  for (std::int32_t slot = 0; slot < cache.n_slots[head]; ++slot) {
    const std::int32_t t = cache.slot_position[first_slot_of(cache, head) + slot];
    if (t < args.policy.n_sink || t >= args.position - args.policy.protect || slot == gone.slot) continue;
    const float other = std::isnan(priority[slot]) ? -INFINITY : priority[slot] + 0.0f;
    if (!(decision.newcomer_effective <= other) && other < INFINITY) decision.newcomer_effective = other;
  }
  decision.boundary = decision.evicted = gone.position;
  decision.boundary_effective = gone.effective;
  decision.slot = gone.slot;
  return decision;
}

}  // namespace

void retain_step(const RetainStepArgs& args) {
  const SlotCacheView& cache = args.cache;
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    RetainDecision decision = args.policy.rule == RetainRule::least ? decide_least(args, head) : decide(args, head);
    if (decision.slot < 0) decision.slot = cache.n_slots[head]++;
    if (args.policy.rule == RetainRule::least) cache.slot_priority[first_slot_of(cache, head) + decision.slot] = 0;
    args.decision[head] = decision;
    args.slot[head] = decision.slot;
  }
}

}  // namespace kvscope::kernels::reference
