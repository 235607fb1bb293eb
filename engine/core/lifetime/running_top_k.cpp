// KVpop section 3.2: at query q the token that leaves the window, t = q - window, competes for top_k long-range slots.
#include "engine/core/lifetime/running_top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

/// The same with decay: every slot is looked at in every step. In exact arithmetic stride 1 has a static priority,
/// score - t log_gamma (eq. 20), but rounded to float32 its order is not that of the effective scores which the cache
/// compares; and for stride > 1 the order of two tokens changes with q.
class DecayingSlots {
 public:
  explicit DecayingSlots(const RetentionGeometry& geometry)
      : log_gamma_(static_cast<float>(geometry.log_gamma)), stride_(geometry.decay_stride) {}
  std::size_t size() const { return slots_.size(); }
  void add(Candidate candidate) { slots_.push_back(candidate); }
  const Candidate& weakest(std::int32_t q) {
    weakest_ = 0;
    Candidate least{effective(0, q), slots_[0].t};
    for (std::size_t i = 1; i < slots_.size(); ++i) {
      const Candidate candidate{effective(i, q), slots_[i].t};
      if (weaker(candidate, least)) {
        least = candidate;
        weakest_ = i;
      }
    }
    return slots_[weakest_];
  }
  void replace_weakest(Candidate candidate) { slots_[weakest_] = candidate; }

 private:
  float effective(std::size_t i, std::int32_t q) const {
    return effective_score(slots_[i].score, slots_[i].t, q, log_gamma_, stride_);
  }
  float log_gamma_;
  int stride_;
  std::size_t weakest_ = 0;  // set by weakest()
  std::vector<Candidate> slots_;
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
  Slots slots(geometry);
  const std::int32_t end = first_undecided(geometry.n_sink, geometry.window, n_queries);
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
