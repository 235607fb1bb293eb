#pragma once
#include "kernels/operation.h"
#include "kernels/retain_policy.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// One decision per KV head at query position q = `position`, taken before q attends:
///
///     newcomer t = q - window, if n_sink <= t (KVpop eq. 4); otherwise nobody leaves and q takes a fresh slot.
///     top_k: while fewer than top_k long-range tokens are kept the newcomer joins them; then the token with the
///     least effective score among them and the newcomer leaves. Of equal ones the older stays.
///     least: while n_slots[h] <= n_sink + window + top_k nobody leaves and q takes a fresh slot; then the token with
///     the least slot_priority among n_sink <= t < q - protect leaves. Of equal ones the older stays.
///
/// The loser's slot is reused for token q; if nobody leaves, q takes slot n_slots[h]++ (the caller has mapped its
/// page). Effective scores are computed in float32 in exactly this order of operations on every back end, so that CPU
/// and CUDA take the same decisions: floorf-free integer division, one multiplication, one addition, no fma
/// contraction.
///
/// slot_priority holds the raw score of each slot's token; the newcomer's slot is given `score[h]` here. Under rule
/// least it is the caller's; the slot that q takes is given 0. A NaN counts as -inf.
///
/// Under rule least a head needs n_sink + window + top_k + 1 slots: the query that led to an eviction has still seen
/// the entry. The decision's newcomer is then q - 1, whose arrival made it one too many (and who may have to go
/// itself), with its priority as score; the boundary is whoever leaves. All slots below n_slots[h] must hold a token;
/// since protect <= window + top_k there is always one that may leave.
///
/// By itself it is what the tests of the contest run; a decode step decides within admit_step, by the same code.
struct RetainStepArgs {
  SlotCacheView cache;
  RetainPolicy policy;
  const float* score;     // [n_kv_heads] raw score of the newcomer, read only by threshold and top_k; may be null else
  std::int32_t position;  // q, the new token's position
  RetainDecision* decision;  // [n_kv_heads] out
  std::int32_t* slot;        // [n_kv_heads] out, the slot for token q (as append wants it)
};

KVSCOPE_OPERATION(retain_step, RetainStepArgs);

}  // namespace kvscope::kernels
