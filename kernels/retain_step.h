#pragma once
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// How a head decides what leaves when query position q arrives.
///
/// The first four ask about the newcomer, the token that leaves the window, with a score that is known by then. `least`
/// is for methods that go by attention (TOVA, H2O): who counts the attention keeps slot_priority up to date.
enum class RetainRule : std::int32_t {
  keep_all = 0,   // nothing ever leaves
  window = 1,     // the newcomer goes, unless it is a sink
  threshold = 2,  // the newcomer stays if score >= threshold, or > threshold if `strict`
  top_k = 3,      // the newcomer competes for top_k long-range slots (KVpop running top-k)
  least = 4,      // beyond n_sink + window + top_k slots the token of least slot_priority goes
};

/// What one head decided at one step. Exactly what a trace keeps of it.
struct RetainDecision {
  std::int32_t newcomer;     // position of the token leaving the window, -1 if there is none (or it is a sink)
  std::int32_t boundary;     // position of the weakest kept long-range token, -1 if there was no contest
  float newcomer_score;      // raw score of the newcomer (0 where the rule has none); of rule least its priority
  float newcomer_effective;  // effective score at q: raw + floor((q - t) / decay_stride) * log_gamma
  float boundary_effective;  // likewise for the boundary token
  std::int32_t evicted;      // position that query q can no longer see, -1 if none
  std::int32_t slot;         // where token q goes
};

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
/// Heads of one layer may differ (hybrids): a full head has a threshold of -inf or a top_k beyond any length, a local
/// one +inf or 0. A score of NaN passes no threshold, not even -inf.
struct RetainStepArgs {
  SlotCacheView cache;
  RetainRule rule;
  const float* score;      // [n_kv_heads] raw score of the newcomer, read only by threshold and top_k; may be null else
  const float* log_gamma;  // [n_kv_heads] <= 0, null for no decay
  float threshold;
  const float* head_threshold = nullptr;  // [n_kv_heads] instead of threshold, or null
  bool strict = false;                    // of threshold: a score equal to it leaves
  std::int32_t position;                  // q, the new token's position
  int n_sink;
  int window;
  int top_k;
  const std::int32_t* head_top_k = nullptr;  // [n_kv_heads] >= 0, instead of top_k, or null
  int protect = 0;                           // of least: the last tokens before q that may not leave
  int decay_stride;                          // n >= 1
  RetainDecision* decision;                  // [n_kv_heads] out
  std::int32_t* slot;                        // [n_kv_heads] out, the slot for token q (as append wants it)
};

void retain_step(const RetainStepArgs& args, Stream stream);
namespace cpu {
void retain_step(const RetainStepArgs& args);
}
namespace reference {
void retain_step(const RetainStepArgs& args);
}

}  // namespace kvscope::kernels
