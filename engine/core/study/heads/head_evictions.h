#pragma once
// One head's row of each series, token by token: when a token left, what that lost, and the verdict on it. Private to study/.

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/core/study/heads/span_loss.h"

namespace kvscope {

/// Refers to the run and to `verdicts`, the head's row, which may be null. Any row may be shorter than the run.
class HeadEvictions {
 public:
  HeadEvictions(const RunRecord& run, int layer, int kv_head, const std::vector<VerdictOfEviction>* verdicts)
      : n_queries_(run.queries()),
        layer_(layer),
        kv_head_(kv_head),
        evict_at_(run.evict_at.row(layer, kv_head)),
        masses_(run.future_mass.empty() ? nullptr : &run.future_mass.row(layer, kv_head)),
        verdicts_(verdicts) {}

  /// The first query that cannot see the token; kUndecided or more: it is there to the end.
  std::int32_t gone(std::int32_t t) const {
    const auto i = static_cast<std::size_t>(t);
    return i < evict_at_.size() ? std::max(t, evict_at_[i]) : kUndecided;
  }
  bool is_evicted(std::int32_t t) const { return gone(t) < n_queries_; }

  Eviction eviction(std::int32_t t) const {
    const auto i = static_cast<std::size_t>(t);
    Eviction found{.t = t, .layer = layer_, .kv_head = kv_head_, .q = gone(t)};
    if (masses_ && i < masses_->size() && !std::isnan((*masses_)[i])) found.mass = (*masses_)[i];
    if (verdicts_ && i < verdicts_->size()) found.verdict = (*verdicts_)[i].verdict;
    return found;
  }

 private:
  std::int32_t n_queries_;
  int layer_, kv_head_;
  const std::vector<std::int32_t>& evict_at_;
  const std::vector<float>* masses_;
  const std::vector<VerdictOfEviction>* verdicts_;
};

}  // namespace kvscope
