#pragma once
// Lifetimes decision by decision: what a long prompt or a stream needs, since nothing of it grows with the text.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/lifetime/running_top_k.h"

namespace kvscope {

/// The rule of one head with what it remembers: the raw scores of the tokens that it keeps, no more.
class LifetimeRule {
 public:
  virtual ~LifetimeRule() = default;
  /// Token t, not a sink, leaves the window at query q = t + window with this raw score (0 for a rule without scores).
  /// To be called for t = n_sink, n_sink + 1, ... Returns the position of the token that q can no longer see, -1 if
  /// all stay; appends to `contests` (may be null) if two tokens met, layer and kv_head left 0.
  virtual std::int32_t admit(std::int32_t t, float score, std::vector<Contest>* contests) = 0;
};

std::unique_ptr<LifetimeRule> make_keep_all_rule();
std::unique_ptr<LifetimeRule> make_streaming_rule();
/// Kept if score >= threshold (strict: > threshold); a NaN leaves.
std::unique_ptr<LifetimeRule> make_threshold_rule(float threshold, bool strict = false);
/// KVpop's. Throws std::invalid_argument for top_k < 0, decay_stride < 1 or log_gamma > 0.
std::unique_ptr<LifetimeRule> make_running_top_k_rule(const RetentionGeometry& geometry);

/// Lifetimes of one head for queries 0 ... n_queries - 1 by a fresh `rule`; scores, evict_at and contests as in
/// running_top_k(). `scores` may be empty for a rule that reads none (`reads_scores` false).
void replay(LifetimeRule& rule, bool reads_scores, std::span<const float> scores, int n_sink, int window,
            std::int32_t n_queries, std::span<std::int32_t> evict_at, std::vector<Contest>* contests);

}  // namespace kvscope
