// KVpop section 3.2: at query q the token that leaves the window, t = q - window, competes for top_k long-range slots.
#include "engine/core/lifetime/running_top_k.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <stdexcept>

#include "engine/core/lifetime/lifetime_map.h"

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
  StaticSlots(const RetentionGeometry&, std::span<const float>) {}
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
/// `slack_` of the least one, and only these are compared by the effective scores themselves.
class DecayingSlots {
 public:
  DecayingSlots(const RetentionGeometry& geometry, std::span<const float> scores)
      : log_gamma_(static_cast<float>(geometry.log_gamma)), stride_(geometry.decay_stride) {
    double largest = 0;  // of the finite scores; an infinite one has an infinite priority, which is exact
    for (const float score : scores) {
      if (std::isfinite(score)) largest = std::max(largest, std::abs(static_cast<double>(score)));
    }
    const double scale = largest + static_cast<double>(scores.size() + geometry.window) * std::abs(slope());
    const double rounding = 8 * 0x1p-24 * scale + 1e-44;  // two values of two roundings each, twice that; denormals
    slack_ = rounding + (stride_ > 1 ? std::abs(static_cast<double>(log_gamma_)) : 0);
    if (scale > 1e38) slack_ = std::numeric_limits<double>::infinity();  // float32 might overflow: look at all
  }
  std::size_t size() const { return slots_.size(); }
  void add(Candidate candidate) { slots_.insert({candidate.score - candidate.t * slope(), candidate}); }
  const Candidate& weakest(std::int32_t q) {
    weakest_ = slots_.begin();
    Candidate least = at(weakest_, q);
    const double limit = weakest_->priority + slack_;  // NaN for -inf + inf, and then all are looked at
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
  Candidate at(Slots::const_iterator slot, std::int32_t q) const {
    return {effective_score(slot->candidate.score, slot->candidate.t, q, log_gamma_, stride_), slot->candidate.t};
  }
  float log_gamma_;
  int stride_;
  double slack_ = 0;
  Slots slots_;
  Slots::const_iterator weakest_;  // set by weakest()
};

/// First token that is not decided after queries 0 ... n_queries - 1: it is still inside the window.
std::int32_t first_undecided(int n_sink, int window, std::int32_t n_queries) {
  return std::max(n_sink, n_queries - window);
}

/// The lifetimes of "everything is kept": what every rule starts from.
void keep_all(int n_sink, int window, std::int32_t n_queries, std::span<std::int32_t> evict_at) {
  if (n_sink < 0 || window < 1) throw std::invalid_argument("lifetimes: n_sink must be >= 0 and window >= 1");
  if (n_queries < 0 || evict_at.size() < static_cast<std::size_t>(n_queries)) {
    throw std::invalid_argument("lifetimes: evict_at is shorter than n_queries");
  }
  const std::size_t n_decided =
      std::min<std::size_t>(evict_at.size(), static_cast<std::size_t>(first_undecided(n_sink, window, n_queries)));
  std::fill(evict_at.begin(), evict_at.begin() + n_decided, kNever);
  std::fill(evict_at.begin() + n_decided, evict_at.end(), kUndecided);
}

void check_scores(std::span<const float> scores, int n_sink, int window, std::int32_t n_queries) {
  const std::int32_t n_read = n_queries - window;
  if (n_read > n_sink && scores.size() < static_cast<std::size_t>(n_read)) {
    throw std::invalid_argument("lifetimes: a score is missing for a token that has left the window");
  }
}

template <typename Slots>
void run_contests(std::span<const float> scores, const RetentionGeometry& geometry, std::int32_t n_queries,
                  std::span<std::int32_t> evict_at, std::vector<Contest>* contests) {
  const float log_gamma = static_cast<float>(geometry.log_gamma);
  const auto effective = [&](const Candidate& c, std::int32_t q) {
    return effective_score(c.score, c.t, q, log_gamma, geometry.decay_stride);
  };
  const std::int32_t end = first_undecided(geometry.n_sink, geometry.window, n_queries);
  Slots slots(geometry, scores.first(std::min(scores.size(), static_cast<std::size_t>(end))));
  for (std::int32_t t = geometry.n_sink; t < end; ++t) {
    const std::int32_t q = t + geometry.window;
    const Candidate newcomer{comparable(scores[t]), t};
    if (slots.size() < static_cast<std::size_t>(geometry.top_k)) {
      slots.add(newcomer);
      continue;
    }
    if (geometry.top_k == 0) {
      evict_at[t] = q;
      continue;
    }
    const Candidate boundary = slots.weakest(q);
    const float newcomer_effective = effective(newcomer, q);
    const float boundary_effective = effective(boundary, q);
    const bool newcomer_stays = newcomer_effective > boundary_effective;  // of equal ones the older stays
    const std::int32_t evicted = newcomer_stays ? boundary.t : t;
    evict_at[evicted] = q;
    if (newcomer_stays) slots.replace_weakest(newcomer);
    if (contests != nullptr) {
      contests->push_back({.q = q,
                           .newcomer = t,
                           .boundary = boundary.t,
                           .newcomer_effective = newcomer_effective,
                           .boundary_effective = boundary_effective,
                           .evicted = evicted});
    }
  }
}

}  // namespace

void running_top_k(std::span<const float> scores, const RetentionGeometry& geometry, std::int32_t n_queries,
                   std::span<std::int32_t> evict_at, std::vector<Contest>* contests) {
  if (geometry.top_k < 0 || geometry.decay_stride < 1 || !(geometry.log_gamma <= 0)) {
    throw std::invalid_argument("running_top_k: top_k must be >= 0, decay_stride >= 1 and log_gamma <= 0");
  }
  keep_all(geometry.n_sink, geometry.window, n_queries, evict_at);
  check_scores(scores, geometry.n_sink, geometry.window, n_queries);
  // The float is what counts: a decay so slow that it rounds to 0 is none.
  if (static_cast<float>(geometry.log_gamma) == 0) {
    run_contests<StaticSlots>(scores, geometry, n_queries, evict_at, contests);
  } else {
    run_contests<DecayingSlots>(scores, geometry, n_queries, evict_at, contests);
  }
}

void threshold_lifetimes(std::span<const float> scores, float threshold, int n_sink, int window, std::int32_t n_queries,
                         std::span<std::int32_t> evict_at) {
  keep_all(n_sink, window, n_queries, evict_at);
  check_scores(scores, n_sink, window, n_queries);
  for (std::int32_t t = n_sink; t < first_undecided(n_sink, window, n_queries); ++t) {
    if (!(scores[t] >= threshold)) evict_at[t] = t + window;  // a NaN leaves
  }
}

void streaming_lifetimes(int n_sink, int window, std::int32_t n_queries, std::span<std::int32_t> evict_at) {
  keep_all(n_sink, window, n_queries, evict_at);
  for (std::int32_t t = n_sink; t < first_undecided(n_sink, window, n_queries); ++t) evict_at[t] = t + window;
}

}  // namespace kvscope
