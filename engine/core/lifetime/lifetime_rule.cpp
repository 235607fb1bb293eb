#include "engine/core/lifetime/lifetime_rule.h"

#include <algorithm>
#include <stdexcept>

#include "engine/core/lifetime/lifetime_map.h"

namespace kvscope {
namespace {

class KeepAll final : public LifetimeRule {
 public:
  std::int32_t admit(std::int32_t, float, std::vector<Contest>*) override { return -1; }
};

class Streaming final : public LifetimeRule {
 public:
  std::int32_t admit(std::int32_t t, float, std::vector<Contest>*) override { return t; }
};

class Threshold final : public LifetimeRule {
 public:
  Threshold(float threshold, bool strict) : threshold_(threshold), strict_(strict) {}
  std::int32_t admit(std::int32_t t, float score, std::vector<Contest>*) override {
    return (strict_ ? score > threshold_ : score >= threshold_) ? -1 : t;
  }

 private:
  float threshold_;
  bool strict_;
};

}  // namespace

std::unique_ptr<LifetimeRule> make_keep_all_rule() { return std::make_unique<KeepAll>(); }
std::unique_ptr<LifetimeRule> make_streaming_rule() { return std::make_unique<Streaming>(); }
std::unique_ptr<LifetimeRule> make_threshold_rule(float threshold, bool strict) {
  return std::make_unique<Threshold>(threshold, strict);
}

void replay(LifetimeRule& rule, bool reads_scores, std::span<const float> scores, int n_sink, int window,
            std::int32_t n_queries, std::span<std::int32_t> evict_at, std::vector<Contest>* contests) {
  if (n_sink < 0 || window < 1) throw std::invalid_argument("lifetimes: n_sink must be >= 0 and window >= 1");
  if (n_queries < 0 || evict_at.size() < static_cast<std::size_t>(n_queries)) {
    throw std::invalid_argument("lifetimes: evict_at is shorter than n_queries");
  }
  const std::int32_t n_left = n_queries - window;  // tokens that have left the window, sinks included
  if (reads_scores && n_left > n_sink && scores.size() < static_cast<std::size_t>(n_left)) {
    throw std::invalid_argument("lifetimes: a score is missing for a token that has left the window");
  }
  const auto n_decided = std::min<std::size_t>(evict_at.size(), static_cast<std::size_t>(std::max(n_sink, n_left)));
  std::fill(evict_at.begin(), evict_at.begin() + n_decided, kNever);
  std::fill(evict_at.begin() + n_decided, evict_at.end(), kUndecided);
  for (std::int32_t t = n_sink; t < n_left; ++t) {
    const std::int32_t evicted = rule.admit(t, reads_scores ? scores[t] : 0, contests);
    if (evicted >= 0) evict_at[evicted] = t + window;
  }
}

}  // namespace kvscope
