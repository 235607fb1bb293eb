#include "engine/decode/head_retention.h"

#include <algorithm>

#include "engine/core/lifetime/lifetime_map.h"

namespace kvscope::engine {

HeadRetention::HeadRetention(std::unique_ptr<LifetimeRule> rule, int n_sink, int window, int delay, bool defers)
    : rule_(std::move(rule)), n_sink_(n_sink), window_(window), delay_(delay), defers_(defers) {}

HeadRetention::Kept& HeadRetention::find(std::int32_t position) {
  return *std::lower_bound(kept_.begin(), kept_.end(), position,
                           [](const Kept& kept, std::int32_t wanted) { return kept.position < wanted; });
}

float& HeadRetention::score_of(std::int32_t token) {
  return token >= first_ ? score_[token - first_] : find(token).score;
}

void HeadRetention::evict(std::int32_t token, std::int32_t q) {
  evictions_.push_back({token, q});
  if (token >= first_) return void(evict_at_[token - first_] = q);
  Kept& kept = find(token);
  kept.evict_at = q;
  first_gone_ = std::min(first_gone_, static_cast<std::size_t>(&kept - kept_.data()));
}

void HeadRetention::decide(std::int32_t n, std::span<const float> scores) {
  evict_at_.assign(static_cast<std::size_t>(n), kNever);
  score_.assign(static_cast<std::size_t>(n), 0.0f);
  evictions_.clear();
  contests_.clear();
  first_gone_ = kept_.size();
  for (std::int32_t q = first_; q < first_ + n; ++q) {
    // Whoever is scored is in the window still, and who leaves it is still there.
    if (const std::int32_t scored = q - delay_; !scores.empty() && scored >= 0) score_of(scored) = scores[q - first_];
    const std::int32_t token = q - window_;
    if (token < n_sink_) continue;
    // Without scores there is nothing to look up, and a policy that evicts by attention may have dropped the token already.
    const float score = scores.empty() ? 0.0f : score_of(token);
    if (const std::int32_t evicted = rule_->admit(token, score, &contests_); evicted >= 0) {
      evict(evicted, defers_ && q > first_ ? first_ + n : q);
    }
  }
}

void HeadRetention::score(std::span<const float> scores) {
  const auto n = static_cast<std::int32_t>(scores.size());
  for (std::int32_t q = first_ - n; q < first_; ++q) {
    if (const std::int32_t scored = q - delay_; scored >= 0) find(scored).score = scores[q - first_ + n];
  }
}

void HeadRetention::renumber(std::span<const std::int32_t> position_by_slot) {
  std::vector<Kept> stays;
  for (std::size_t slot = 0; slot < position_by_slot.size(); ++slot) {
    stays.push_back(find(position_by_slot[slot]));
    stays.back().slot = static_cast<std::int32_t>(slot);
  }
  std::sort(stays.begin(), stays.end(), [](const Kept& a, const Kept& b) { return a.position < b.position; });
  kept_ = std::move(stays);
  n_slots_ = static_cast<std::int32_t>(kept_.size());
}

void HeadRetention::commit() {
  vacated_.clear();
  std::size_t stays = first_gone_;
  for (std::size_t i = first_gone_; i < kept_.size(); ++i) {
    if (kept_[i].evict_at == kNever) {
      kept_[stays++] = kept_[i];
    } else {
      vacated_.push_back({kept_[i].slot, kept_[i].evict_at});
    }
  }
  kept_.resize(stays);
  slots_.assign(evict_at_.size(), -1);
  std::size_t reused = 0;
  for (std::size_t i = 0; i < evict_at_.size(); ++i) {
    if (evict_at_[i] != kNever) continue;
    slots_[i] = reused < vacated_.size() ? vacated_[reused++].slot : n_slots_++;
    kept_.push_back({first_ + static_cast<std::int32_t>(i), slots_[i], score_[i], kNever});
  }
  first_ += static_cast<std::int32_t>(evict_at_.size());
}

}  // namespace kvscope::engine
