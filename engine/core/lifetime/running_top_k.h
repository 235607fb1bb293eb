#pragma once
// KVpop's running top-k: scores in, lifetimes and contests out. Used by the engine's prefill, the oracle and what-if.

#include <cstdint>
#include <span>
#include <vector>

namespace kvscope {

/// The retention geometry of one policy. Eligible at query q: n_sink <= t <= q - window (KVpop eq. 4).
struct RetentionGeometry {
  int n_sink = 4;
  int window = 64;
  int top_k = 444;
  double log_gamma = 0;  // <= 0; per-token decay of the effective score, 0 for none
  int decay_stride = 1;  // n of eq. 5
  int n_positions = 0;   // of the run, what a share of it refers to; 0: not known
  int budget() const { return n_sink + window + top_k; }
};

/// One decision at the boundary. `evicted` is newcomer or boundary, or -1 while the cache is not full (boundary -1 too).
/// Of Admission::least, where the newest need not compete with whom it drives out: `boundary` is who left, and
/// newcomer_effective the next least, of the others that might have left; NaN if there was none. Of Admission::pooled the
/// same: the strongest of those that the head lost at q, and the least that stayed in any head (PooledTopK::Cut).
struct Contest {
  std::int32_t q = 0;
  std::int16_t layer = 0;
  std::int16_t kv_head = 0;
  std::int32_t newcomer = -1;
  std::int32_t boundary = -1;
  float newcomer_effective = 0;  // scores as compared at q, decay included
  float boundary_effective = 0;
  std::int32_t evicted = -1;
  bool operator==(const Contest&) const = default;
};

/// A token that leaves: query evict_at is the first that does not see it.
struct TokenEviction {
  std::int32_t token = 0, evict_at = 0;
};

/// Effective score at q (eq. 5 and 18): score + floor((q - t) / stride) * log_gamma, in float32 and in this order of
/// operations: the same bits as kernels::retain_step.
float effective_score(float score, std::int32_t t, std::int32_t q, float log_gamma, int decay_stride);

/// Lifetimes of one head for queries 0 ... n_queries - 1 from the raw score of each token, O(n log top_k); with
/// decay, more by the tokens whose scores lie within float32 rounding (stride > 1: within log_gamma) of the weakest.
///
/// scores: [n_tokens] raw score by position; those of tokens still in the window at the last query are not read.
/// evict_at: [n_tokens] out, n_tokens >= n_queries; kUndecided for tokens that are in the window at the last query
/// (t > n_queries - 1 - window), kNever for kept tokens and sinks. Of equal effective scores the older token stays.
/// contests: if not null, one entry per contest (none while fewer than top_k are kept), q ascending; layer and kv_head
/// are left 0.
void running_top_k(std::span<const float> scores, const RetentionGeometry& geometry, std::int32_t n_queries,
                   std::span<std::int32_t> evict_at, std::vector<Contest>* contests = nullptr);

}  // namespace kvscope
