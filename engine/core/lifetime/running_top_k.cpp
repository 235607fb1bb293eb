// KVpop section 3.2: at query q the token that leaves the window, t = q - window, competes for top_k long-range slots.
#include "engine/core/lifetime/running_top_k.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <stdexcept>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/lifetime/lifetime_rule.h"

namespace kvscope {

float effective_score(float score, std::int32_t t, std::int32_t q, float log_gamma, int decay_stride) {
  const float decay = static_cast<float>((q - t) / decay_stride) * log_gamma;
  return score + decay;
}

namespace {

struct Candidate {
  float score;  // never NaN
  std::int32_t t;
};

/// NaN would make every comparison false, and the outcome depend on the order of slots: it counts as the lowest score.
float comparable(float score) { return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score; }

/// Whether a leaves before b at equal decay: lower score, of equal ones the younger.
bool weaker(const Candidate& a, const Candidate& b) { return a.score != b.score ? a.score < b.score : a.t > b.t; }

/// The kept long-range tokens without decay: effective scores are the raw ones at every q, so a heap with the weakest
/// on top holds for ever.
class StaticSlots {
 public:
  explicit StaticSlots(const RetentionGeometry&) {}
  std::size_t size() const { return heap_.size(); }
  void add(Candidate candidate) {
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end(), stronger);
  }
  const Candidate& weakest(std::int32_t) { return heap_.front(); }
  void replace_weakest(Candidate candidate) {
    std::pop_heap(heap_.begin(), heap_.end(), stronger);
    heap_.back() = candidate;
    std::push_heap(heap_.begin(), heap_.end(), stronger);
  }

 private:
  static bool stronger(const Candidate& a, const Candidate& b) { return weaker(b, a); }
  std::vector<Candidate> heap_;
};

/// The same with decay. In exact arithmetic the order of two tokens hardly depends on q: with d = log_gamma / stride,
///
///     score + floor((q - t) / stride) log_gamma  lies in  priority + q d + [0, |log_gamma|),  priority = score - t d
///
/// (eq. 20; the interval is a point for stride 1). What decides, however, is the float32 value, each of whose two
/// roundings is off by at most 2^-24 of scores and decay. So the weakest token is among those whose priority is within
/// slack(q) of the least one, and only these are compared by the effective scores themselves.
class DecayingSlots {
 public:
  explicit DecayingSlots(const RetentionGeometry& geometry)
      : log_gamma_(static_cast<float>(geometry.log_gamma)), stride_(geometry.decay_stride) {}
  std::size_t size() const { return slots_.size(); }
  void add(Candidate candidate) {
    // An infinite score has an infinite priority, which is exact.
    if (std::isfinite(candidate.score)) largest_ = std::max(largest_, std::abs(static_cast<double>(candidate.score)));
    slots_.insert({candidate.score - candidate.t * slope(), candidate});
  }
  const Candidate& weakest(std::int32_t q) {
    weakest_ = slots_.begin();
    Candidate least = at(weakest_, q);
    const double limit = weakest_->priority + slack(q);  // NaN for -inf + inf, and then all are looked at
    for (auto slot = std::next(weakest_); slot != slots_.end() && !(slot->priority > limit); ++slot) {
      const Candidate candidate = at(slot, q);
      if (!weaker(candidate, least)) continue;
      least = candidate;
      weakest_ = slot;
    }
    return weakest_->candidate;
  }
  void replace_weakest(Candidate candidate) {
    slots_.erase(weakest_);
    add(candidate);
  }

 private:
  struct Slot {
    double priority;
    Candidate candidate;
    bool operator<(const Slot& other) const {
      return priority != other.priority ? priority < other.priority : candidate.t < other.candidate.t;
    }
  };
  using Slots = std::set<Slot>;

  double slope() const { return static_cast<double>(log_gamma_) / stride_; }
  double slack(std::int32_t q) const {
    const double scale = largest_ + static_cast<double>(q) * std::abs(slope());
    if (scale > 1e38) return std::numeric_limits<double>::infinity();  // float32 might overflow: look at all
    const double rounding = 8 * 0x1p-24 * scale + 1e-44;  // two values of two roundings each, twice that; denormals
    return rounding + (stride_ > 1 ? std::abs(static_cast<double>(log_gamma_)) : 0);
  }
  Candidate at(Slots::const_iterator slot, std::int32_t q) const {
    return {effective_score(slot->candidate.score, slot->candidate.t, q, log_gamma_, stride_), slot->candidate.t};
  }
  float log_gamma_;
  int stride_;
  double largest_ = 0;  // |score| of the finite ones so far
  Slots slots_;
  Slots::const_iterator weakest_;  // set by weakest()
};

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
    if (newcomer_stays) slots_.replace_weakest(newcomer);
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
