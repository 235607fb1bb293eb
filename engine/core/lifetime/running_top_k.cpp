// KVpop section 3.2: at query q the token that leaves the window, t = q - window, competes for top_k long-range slots.
#include "engine/core/lifetime/running_top_k.h"

#include <stdexcept>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/lifetime/lifetime_rule.h"
#include "engine/core/lifetime/long_range_slots.h"

namespace kvscope {

float effective_score(float score, std::int32_t t, std::int32_t q, float log_gamma, int decay_stride) {
  const float decay = static_cast<float>((q - t) / decay_stride) * log_gamma;
  return score + decay;
}

namespace {

/// KVpop's contests over one kind of slots.
template <typename Slots>
class RunningTopK final : public LifetimeRule {
 public:
  explicit RunningTopK(const RetentionGeometry& geometry) : geometry_(geometry), slots_(geometry) {}

  std::int32_t admit(std::int32_t t, float score, std::vector<Contest>* contests) override {
    const std::int32_t q = t + geometry_.window;
    const Candidate newcomer{comparable(score), t};
    if (slots_.size() < static_cast<std::size_t>(geometry_.top_k)) {
      slots_.add(newcomer);
      return -1;
    }
    if (geometry_.top_k == 0) return t;
    const Candidate boundary = slots_.weakest(q);
    const float newcomer_effective = effective(newcomer, q);
    const float boundary_effective = effective(boundary, q);
    const bool newcomer_stays = newcomer_effective > boundary_effective;  // of equal ones the older stays
    const std::int32_t evicted = newcomer_stays ? boundary.t : t;
    if (newcomer_stays) {
      slots_.remove_weakest();
      slots_.add(newcomer);
    }
    if (contests != nullptr) {
      contests->push_back({.q = q,
                           .newcomer = t,
                           .boundary = boundary.t,
                           .newcomer_effective = newcomer_effective,
                           .boundary_effective = boundary_effective,
                           .evicted = evicted});
    }
    return evicted;
  }

 private:
  float effective(const Candidate& c, std::int32_t q) const {
    return effective_score(c.score, c.t, q, static_cast<float>(geometry_.log_gamma), geometry_.decay_stride);
  }
  RetentionGeometry geometry_;
  Slots slots_;
};

}  // namespace

std::unique_ptr<LifetimeRule> make_running_top_k_rule(const RetentionGeometry& geometry) {
  if (geometry.top_k < 0 || geometry.decay_stride < 1 || !(geometry.log_gamma <= 0)) {
    throw std::invalid_argument("running_top_k: top_k must be >= 0, decay_stride >= 1 and log_gamma <= 0");
  }
  // The float is what counts: a decay so slow that it rounds to 0 is none.
  if (static_cast<float>(geometry.log_gamma) == 0) return std::make_unique<RunningTopK<StaticSlots>>(geometry);
  return std::make_unique<RunningTopK<DecayingSlots>>(geometry);
}

void running_top_k(std::span<const float> scores, const RetentionGeometry& geometry, std::int32_t n_queries,
                   std::span<std::int32_t> evict_at, std::vector<Contest>* contests) {
  replay(*make_running_top_k_rule(geometry), true, scores, geometry.n_sink, geometry.window, n_queries, evict_at,
         contests);
}

}  // namespace kvscope
