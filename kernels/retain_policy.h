#pragma once
// How the heads of a layer choose who leaves the cache, and what they chose.

#include <cstdint>

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

/// Whether a rule asks for the newcomer's score.
constexpr bool is_scored(RetainRule rule) { return rule == RetainRule::threshold || rule == RetainRule::top_k; }

/// Heads of one layer may differ (hybrids): a full head has a threshold of -inf or a top_k beyond any length, a local
/// one +inf or 0. A score of NaN passes no threshold, not even -inf.
struct RetainPolicy {
  RetainRule rule = RetainRule::keep_all;
  const float* log_gamma = nullptr;  // [n_kv_heads] <= 0, null for no decay
  float threshold = 0;
  const float* head_threshold = nullptr;  // [n_kv_heads] instead of threshold, or null
  bool strict = false;                    // of threshold: a score equal to it leaves
  int n_sink = 0;
  int window = 1;
  int top_k = 0;
  const std::int32_t* head_top_k = nullptr;  // [n_kv_heads] >= 0, instead of top_k, or null
  int protect = 0;                           // of least: the last tokens before q that may not leave
  int decay_stride = 1;                      // n >= 1
  /// [n_kv_heads, window] in and out, or null: the slot of token t in cell t % window, so that `window` and `threshold` need not
  /// search for who leaves. A cell that is wrong costs a search.
  std::int32_t* recent_slot = nullptr;
};

/// What one head decided at one step. Exactly what a trace keeps of it.
struct RetainDecision {
  std::int32_t newcomer;     // position of the token leaving the window, -1 if there is none (or it is a sink)
  std::int32_t boundary;     // position of the weakest kept long-range token, -1 if there was no contest
  float newcomer_score;      // raw score of the newcomer (0 where the rule has none); of rule least its priority
  float newcomer_effective;  // effective score at q: raw + floor((q - t) / decay_stride) * log_gamma; of rule least
      // the least priority of the others that might have left, NaN (-inf for one) if there was none
  float boundary_effective;  // likewise for the boundary token
  std::int32_t evicted;      // position that query q can no longer see, -1 if none
  std::int32_t slot;         // where token q goes
};

}  // namespace kvscope::kernels
