#include "kernels/retain_step.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/heads.h"
#include "kernels/parallel_for.h"
#include "kernels/rule/retain.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kBlock = 128;  // slots

/// effective[i]: the effective score of the token in slot i as it is compared (a NaN as -inf), +inf if it is no
/// long-range token (n_sink <= t < end). Returns how many are. Neither branches nor divides integers, so that several
/// slots are done at once: cut off, the quotient of two int32 in double precision is that of the integers.
KVSCOPE_CLONES int effective_scores(const HeadContest& contest, const std::int32_t* position, const float* priority,
                                    int n, float* effective) {
  const std::int32_t q = contest.position, n_sink = contest.policy.n_sink, end = contest.end();
  const float log_gamma = contest.is_least() ? 0 : contest.log_gamma;
  const double stride = contest.policy.decay_stride;
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

/// Slots first ... first + n - 1 of a scan: whoever is the least of them is compared with the weakest so far.
void scan_block(const HeadContest& contest, const std::int32_t* position, const float* priority, std::int32_t first,
                int n, Scan& scan) {
  position += first;
  priority += first;
  float effective[kBlock];
  const int n_long_range = effective_scores(contest, position, priority, n, effective);
  if (n_long_range == 0) return;
  scan.n_long_range += n_long_range;
  std::fill(effective + n, effective + kBlock, INFINITY);
  const float least = least_of(effective);
  if (scan.weakest.position >= 0 && least > scan.weakest.effective) return;
  for (int i = 0; i < n; ++i) {
    const std::int32_t t = position[i];
    if (effective[i] != least || t < contest.policy.n_sink || t >= contest.end()) continue;
    const Contender one = {contest.effective(priority[i], t), t, first + i};
    if (leaves_before(one, scan.weakest)) scan.weakest = one;
  }
}

/// Scan::next, in a search of its own: the weakest is not known before the end of the first, which is every policy's.
float next_least(const HeadContest& contest, const std::int32_t* position, const float* priority, std::int32_t n_slots,
                 std::int32_t weakest_slot) {
  float next = INFINITY, effective[kBlock];
  for (std::int32_t first = 0; first < n_slots; first += kBlock) {
    const int n = std::min(kBlock, n_slots - first);
    effective_scores(contest, position + first, priority + first, n, effective);
    std::fill(effective + n, effective + kBlock, INFINITY);
    if (weakest_slot >= first && weakest_slot < first + n) effective[weakest_slot - first] = INFINITY;
    next = std::min(next, least_of(effective));
  }
  return next;
}

/// What decide() wants to know of a head's slots. Without a newcomer there is no contest, but of rule least.
Scan scan_slots(const HeadContest& contest, const std::int32_t* position, const float* priority, std::int32_t n_slots) {
  Scan scan = nothing_found();
  const std::int32_t* found = std::find(position, position + n_slots, contest.newcomer());
  if (found != position + n_slots) scan.newcomer_slot = static_cast<std::int32_t>(found - position);
  if (!contest.has_search() || (scan.newcomer_slot < 0 && !contest.is_least())) return scan;
  for (std::int32_t first = 0; first < n_slots; first += kBlock) {
    scan_block(contest, position, priority, first, std::min(kBlock, n_slots - first), scan);
  }
  if (contest.is_least() && scan.weakest.position >= 0)
    scan.next = next_least(contest, position, priority, n_slots, scan.weakest.slot);
  return scan;
}

}  // namespace

RetainDecision retain_head(const SlotCacheView& cache, const RetainPolicy& policy, int head, std::int32_t position,
                           float score) {
  const HeadContest contest = contest_of(policy, head, position, score);
  const std::int64_t row = slot_row(cache, head);
  float* priority = cache.slot_priority ? cache.slot_priority + row : nullptr;
  std::int32_t* n_slots = cache.n_slots + head;
  Scan scan = nothing_found();
  if (contest.is_due(*n_slots)) {
    scan.newcomer_slot = known_slot(contest, head, cache.slot_position + row, *n_slots);
    if (scan.newcomer_slot < 0) scan = scan_slots(contest, cache.slot_position + row, priority, *n_slots);
  }
  const RetainDecision decision = decide(contest, scan, priority, n_slots);
  if (std::int32_t* cell = recent_cell(contest, head, position)) *cell = decision.slot;
  return decision;
}

void retain_step(const RetainStepArgs& args) {
  const std::int64_t cost = 4L * args.cache.max_pages * args.cache.page_size;
  parallel_for(args.cache.n_kv_heads, cost, [&](std::int64_t i) {
    const int head = static_cast<int>(i);
    const float score = args.score ? args.score[head] : 0.0f;
    args.decision[head] = retain_head(args.cache, args.policy, head, args.position, score);
    args.slot[head] = args.decision[head].slot;
  });
}

}  // namespace kvscope::kernels::cpu
