#pragma once
// The long-range tokens that a head keeps, and which of them is the weakest: what running top-k, of one head or of all
// together, searches.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "engine/core/lifetime/running_top_k.h"

namespace kvscope {

struct Candidate {
  float score;  // never NaN
  std::int32_t t;
};

/// NaN would make every comparison false, and the outcome depend on the order of slots: it counts as the lowest score.
inline float comparable(float score) { return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score; }

/// Whether a leaves before b at equal decay: lower score, of equal ones the younger.
inline bool weaker(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score < b.score : a.t > b.t;
}

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
  void remove_weakest() {
    std::pop_heap(heap_.begin(), heap_.end(), stronger);
    heap_.pop_back();
  }
  /// All of them, in any order; none are left.
  std::vector<Candidate> take() { return std::exchange(heap_, {}); }

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
  void remove_weakest() { slots_.erase(weakest_); }
  std::vector<Candidate> take() {
    std::vector<Candidate> all;
    for (const Slot& slot : slots_) all.push_back(slot.candidate);
    slots_.clear();
    return all;
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

}  // namespace kvscope
