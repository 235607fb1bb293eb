#pragma once
// The retention contest of one head, shared word for word by CPU and CUDA so that they decide alike. Host files that
// include this are compiled without fma contraction.
//
// Only the search for the weakest slot is written twice, since nothing of it is the same code: a block of threads has
// one slot a thread and meets by shuffles (cuda/retain.cuh), a core takes vectors of slots (cpu/retain_step.cpp). Who
// is weaker is a total order, so any search finds the same one.

#include <cmath>

#include "kernels/host_device.h"
#include "kernels/retain_policy.h"

namespace kvscope::kernels {

/// Effective score of token t at query q: score + floor((q - t) / decay_stride) * log_gamma, in float32, one
/// multiplication and one addition; the same bits as kvscope::effective_score in
/// engine/core/lifetime/running_top_k.h. 0 <= t <= q, decay_stride >= 1.
KVSCOPE_HOST_DEVICE inline float effective_at(float score, std::int32_t t, std::int32_t q, float log_gamma,
                                              int decay_stride) {
  const float steps = static_cast<float>((q - t) / decay_stride);
#ifdef __CUDA_ARCH__
  return __fadd_rn(score, __fmul_rn(steps, log_gamma));  // never contracted, whatever the file is compiled with
#else
  const float decay = steps * log_gamma;
  return score + decay;
#endif
}

/// Rule threshold: score >= threshold, or > where `strict`. A NaN never passes.
KVSCOPE_HOST_DEVICE inline bool passes(float score, float threshold, bool strict) {
  return strict ? score > threshold : score >= threshold;
}

/// One side of a contest. `position` -1 stands for nobody.
struct Contender {
  float effective;
  std::int32_t position;
  std::int32_t slot;
};

/// True if `a` leaves before `b`: the lesser effective score, of equal ones the newer token. A NaN counts as -inf,
/// which keeps this a total order (and the minimum independent of the order of the search) whatever a broken scorer
/// sends.
KVSCOPE_HOST_DEVICE inline bool leaves_before(const Contender& a, const Contender& b) {
  if (b.position < 0) return a.position >= 0;
  if (a.position < 0) return false;
  const float effective_a = a.effective == a.effective ? a.effective : -INFINITY;
  const float effective_b = b.effective == b.effective ? b.effective : -INFINITY;
  return effective_a < effective_b || (effective_a == effective_b && a.position > b.position);
}

/// What a search through the slots of a head finds.
struct Scan {
  Contender weakest;           // of those who may leave, other than the newcomer (rule least: whoever it is)
  std::int32_t n_long_range;   // how many there are
  std::int32_t newcomer_slot;  // -1 if not seen
  float next;  // of rule least: the least effective score but the weakest's, NaN as -inf; +inf if there is none
};
KVSCOPE_HOST_DEVICE inline Scan nothing_found() { return {{0, -1, -1}, 0, -1, INFINITY}; }

/// The score by which leaves_before() compares.
KVSCOPE_HOST_DEVICE inline float compared(float effective) { return effective == effective ? effective : -INFINITY; }

/// One head at one step: the policy, what of it is this head's own, and who asks.
struct HeadContest {
  RetainPolicy policy;
  float log_gamma;
  float threshold;
  std::int32_t top_k;
  std::int32_t position;  // q
  float score;            // raw, of the newcomer; any number where the rule asks for none

  KVSCOPE_HOST_DEVICE bool is_least() const { return policy.rule == RetainRule::least; }
  /// Whom the step is about: who leaves the window or, of rule least, who came last.
  KVSCOPE_HOST_DEVICE std::int32_t newcomer() const { return position - (is_least() ? 1 : policy.window); }
  /// The weakest is sought among the tokens n_sink <= t < end().
  KVSCOPE_HOST_DEVICE std::int32_t end() const { return is_least() ? position - policy.protect : newcomer(); }
  KVSCOPE_HOST_DEVICE bool has_search() const { return is_least() || policy.rule == RetainRule::top_k; }
  /// The score of token t as it is compared; rule least knows no decay.
  KVSCOPE_HOST_DEVICE float effective(float of_token, std::int32_t t) const {
    return effective_at(of_token, t, position, is_least() ? 0.0f : log_gamma, policy.decay_stride);
  }
  /// Whether anybody can leave at all: if not, no slot needs to be looked at. In 64 bits: top_k may be as large as it
  /// likes.
  KVSCOPE_HOST_DEVICE bool is_due(std::int32_t n_slots) const {
    if (is_least()) return n_slots > std::int64_t{policy.n_sink} + policy.window + top_k;
    return policy.rule != RetainRule::keep_all && newcomer() >= policy.n_sink;
  }
};

KVSCOPE_HOST_DEVICE inline HeadContest contest_of(const RetainPolicy& policy, int head, std::int32_t position,
                                                  float score) {
  return {.policy = policy,
          .log_gamma = policy.log_gamma ? policy.log_gamma[head] : 0.0f,
          .threshold = policy.head_threshold ? policy.head_threshold[head] : policy.threshold,
          .top_k = policy.head_top_k ? policy.head_top_k[head] : policy.top_k,
          .position = position,
          .score = score};
}

/// All rules but least: what happens to the newcomer. `priority`: of the head's slots; the newcomer's is written.
KVSCOPE_HOST_DEVICE inline RetainDecision decide_newcomer(const HeadContest& contest, const Scan& scan,
                                                          float* priority) {
  RetainDecision decision = {-1, -1, 0, 0, 0, -1, -1};
  if (scan.newcomer_slot < 0) return decision;
  const RetainRule rule = contest.policy.rule;
  decision.newcomer = contest.newcomer();
  Contender gone = {0, decision.newcomer, scan.newcomer_slot};
  if (rule != RetainRule::window) {
    priority[scan.newcomer_slot] = contest.score;
    gone.effective = contest.effective(contest.score, decision.newcomer);
    decision.newcomer_score = contest.score;
    decision.newcomer_effective = gone.effective;
  }
  if (rule == RetainRule::threshold && passes(contest.score, contest.threshold, contest.policy.strict)) return decision;
  if (rule == RetainRule::top_k) {
    if (scan.n_long_range < contest.top_k) return decision;
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

/// Rule least: the weakest goes.
KVSCOPE_HOST_DEVICE inline RetainDecision decide_least(const HeadContest& contest, const Scan& scan,
                                                       const float* priority) {
  RetainDecision decision = {-1, -1, 0, 0, 0, -1, -1};
  if (scan.weakest.position < 0) return decision;
  if (scan.newcomer_slot >= 0) {
    decision.newcomer = contest.newcomer();
    decision.newcomer_score = priority[scan.newcomer_slot];
  }
  decision.newcomer_effective = scan.next < INFINITY ? scan.next : NAN;
  decision.boundary = decision.evicted = scan.weakest.position;
  decision.boundary_effective = priority[scan.weakest.slot];
  decision.slot = scan.weakest.slot;
  return decision;
}

/// The cell of RetainPolicy::recent_slot for token t, null where rule or policy has none. Of two tokens a window apart it is the
/// same: who leaves hands it to who comes.
KVSCOPE_HOST_DEVICE inline std::int32_t* recent_cell(const HeadContest& contest, int head, std::int32_t t) {
  if (contest.policy.recent_slot == nullptr || contest.has_search() || t < 0) return nullptr;
  const std::int64_t window = contest.policy.window;
  return contest.policy.recent_slot + head * window + t % contest.policy.window;
}

/// The newcomer's slot without a search; -1: not known. `position`: of the head's slots.
KVSCOPE_HOST_DEVICE inline std::int32_t known_slot(const HeadContest& contest, int head, const std::int32_t* position,
                                                   std::int32_t n_slots) {
  const std::int32_t* cell = recent_cell(contest, head, contest.newcomer());
  const std::int32_t slot = cell != nullptr ? *cell : -1;
  return slot >= 0 && slot < n_slots && position[slot] == contest.newcomer() ? slot : -1;
}

/// The decision of a head with `n_slots` slots, and its effects on them: token q takes the slot of who leaves, or a
/// fresh one, which is counted.
KVSCOPE_HOST_DEVICE inline RetainDecision decide(const HeadContest& contest, const Scan& scan, float* priority,
                                                 std::int32_t* n_slots) {
  RetainDecision decision =
      contest.is_least() ? decide_least(contest, scan, priority) : decide_newcomer(contest, scan, priority);
  if (decision.slot < 0) decision.slot = (*n_slots)++;
  if (contest.is_least()) priority[decision.slot] = 0;
  return decision;
}

}  // namespace kvscope::kernels
