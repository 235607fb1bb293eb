#pragma once
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// How a head decides what leaves when query position q arrives.
enum class RetainRule : std::int32_t {
  keep_all = 0,   // nothing ever leaves
  window = 1,     // the newcomer (the token that leaves the window) goes, unless it is a sink
  threshold = 2,  // the newcomer stays if score >= threshold
  top_k = 3,      // the newcomer competes for top_k long-range slots (KVpop running top-k)
};

/// What one head decided at one step. Exactly what a trace keeps of it.
struct RetainDecision {
  std::int32_t newcomer;     // position of the token leaving the window, -1 if there is none (or it is a sink)
  std::int32_t boundary;     // position of the weakest kept long-range token, -1 if there was no contest
  float newcomer_score;      // raw score of the newcomer (0 where the rule has none)
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
///
/// The loser's slot is reused for token q; if nobody leaves, q takes slot n_slots[h]++ (the caller has mapped its
/// page). Effective scores are computed in float32 in exactly this order of operations on every back end, so that CPU
/// and CUDA take the same decisions: floorf-free integer division, one multiplication, one addition, no fma
/// contraction.
///
/// slot_priority holds the raw score of each slot's token; the newcomer's slot is given `score[h]` here.
struct RetainStepArgs {
  SlotCacheView cache;
  RetainRule rule;
  const float* score;      // [n_kv_heads] raw score of the newcomer, read only by threshold and top_k; may be null else
  const float* log_gamma;  // [n_kv_heads] <= 0, null for no decay
  float threshold;
  std::int32_t position;  // q, the new token's position
  int n_sink;
  int window;
  int top_k;
  int decay_stride;          // n >= 1
  RetainDecision* decision;  // [n_kv_heads] out
  std::int32_t* slot;        // [n_kv_heads] out, the slot for token q (as append wants it)
};

void retain_step(const RetainStepArgs& args, Stream stream);
namespace cpu {
void retain_step(const RetainStepArgs& args);
}
namespace reference {
void retain_step(const RetainStepArgs& args);
}

}  // namespace kvscope::kernels
