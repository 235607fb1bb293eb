#include "engine/core/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <stdexcept>

namespace kvscope {
namespace {

constexpr std::size_t kLanes = 16;  // independent sums and maxima, which the compiler puts into vectors

/// The greatest number, -inf if there is none. A NaN is passed over.
float greatest_of(std::span<const float> x) {
  float lane[kLanes];
  std::fill_n(lane, kLanes, -INFINITY);
  std::size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  }
  for (; i < x.size(); ++i) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  return *std::max_element(lane, lane + kLanes);
}

/// value(0) + ... + value(n - 1). Several sums, since each addition waits for the one before it.
template <typename Value>
double sum_of(std::size_t n, const Value& value) {
  double lane[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) lane[j] += value(i + j);
  }
  for (; i < n; ++i) lane[0] += value(i);
  return lane[0] + lane[1] + (lane[2] + lane[3]);
}

/// exp(x) for x <= 0, to 3e-7 of it, 0 below -87: 2^n times a polynomial. Plain arithmetic, so that it is the same
/// everywhere and the compiler does several at once. kernels/cpu/vector.cpp has the same polynomial: what is drawn from
/// a seed must not move with the kernels, and nothing else ties the record to them.
inline float exp_of_negative(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  constexpr float kRoundToInteger = 12582912.0f;  // 1.5 * 2^23: adding it drops the fraction
  const float n = (clamped * 1.44269504f + kRoundToInteger) - kRoundToInteger;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const float power = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : p * power;
}

float score_of(float logit, float greatest, float temperature) { return (logit - greatest) / temperature; }

/// weights[i] = exp(score of i); returns their sum.
double weigh(std::span<const float> logits, float greatest, float temperature, std::vector<float>& weights) {
  weights.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights[i] = exp_of_negative(score_of(logits[i], greatest, temperature));
  }
  return sum_of(logits.size(), [&](std::size_t i) { return weights[i]; });
}

/// The k-th greatest, k <= logits.size(). A heap of k while k is small: after the first few thousand logits hardly one
/// is greater than its least.
float kth_greatest(std::span<const float> logits, std::size_t k) {
  std::vector<float> heap(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(k));
  if (k > logits.size() / 16) {
    heap.assign(logits.begin(), logits.end());
    std::nth_element(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(k - 1), heap.end(), std::greater<>());
    return heap[k - 1];
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  for (const float logit : logits.subspan(k)) {
    if (!(logit > heap.front())) continue;
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.back() = logit;
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  return heap.front();
}

/// Weights are in (0, 1], and as numbers their bits ascend with them: 0 for the greatest, 32 to an octave.
constexpr int kBuckets = 127 * 32 + 1;
int bucket_of(float weight) {
  return static_cast<int>((std::bit_cast<std::uint32_t>(1.0f) - std::bit_cast<std::uint32_t>(weight)) >> 18);
}

double sum_of_weights(std::span<const Sampler::Candidate> candidates) {
  return sum_of(candidates.size(), [&](std::size_t i) { return candidates[i].weight; });
}

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  const double greatest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - greatest);
  return greatest + std::log(sum);
}

std::int32_t Sampler::next(std::span<const float> logits, std::span<const std::int32_t> so_far) {
  if (spec_.temperature == 0) {
    const auto scores = penalised(logits, so_far);
    const auto best = std::find(scores.begin(), scores.end(), greatest_of(scores));
    if (best == scores.end()) throw std::invalid_argument("Sampler: no logit is a number");
    return static_cast<std::int32_t>(best - scores.begin());
  }
  const auto from = candidates(logits, so_far);
  if (from.empty()) throw std::invalid_argument("Sampler: no logit is a number");
  double left = static_cast<double>(random_() >> 11) * 0x1p-53 * sum_of_weights(from);
  std::size_t i = 0;
  while (i + 1 < from.size() && (left -= from[i].weight) >= 0) ++i;
  return from[i].id;
}

std::span<const Sampler::Candidate> Sampler::candidates(std::span<const float> logits,
                                                        std::span<const std::int32_t> so_far) {
  const auto scores = penalised(logits, so_far);
  collect(scores);
  if (spec_.top_p < 1) keep_top_p(scores);
  const auto least = static_cast<float>(spec_.min_p);  // the greatest has weight 1
  if (least > 0) keep_if([&](const Candidate& c) { return c.weight >= least; });
  return candidates_;
}

void Sampler::note(std::span<const std::int32_t> so_far) {
  if (so_far.size() < n_noted_) {  // another sequence
    for (const std::int32_t id : distinct_) is_noted_[id] = false;
    distinct_.clear();
    n_noted_ = 0;
  }
  for (const std::int32_t id : so_far.subspan(n_noted_)) {
    if (id < 0) continue;
    if (static_cast<std::size_t>(id) >= is_noted_.size()) is_noted_.resize(id + 1);
    if (!is_noted_[id]) distinct_.push_back(id);
    is_noted_[id] = true;
  }
  n_noted_ = so_far.size();
}

std::span<const float> Sampler::penalised(std::span<const float> logits, std::span<const std::int32_t> so_far) {
  if (spec_.repetition_penalty == 1) return logits;
  note(so_far);
  penalised_.assign(logits.begin(), logits.end());
  const auto penalty = static_cast<float>(spec_.repetition_penalty);
  for (const std::int32_t id : distinct_) {
    if (static_cast<std::size_t>(id) >= logits.size()) continue;
    penalised_[id] = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
  }
  return penalised_;
}

/// No branch, since nobody can foretell which way it would go.
void Sampler::keep_if(const auto& is_kept) {
  std::size_t n = 0;
  for (const Candidate candidate : candidates_) {
    candidates_[n] = candidate;
    n += is_kept(candidate);
  }
  candidates_.resize(n);
}

/// Fills candidates_ with what top_k leaves, sum_ with their weights. With top_p those are left out that it will not
/// keep either: a weight below (1 - p) / n of the sum, since even n of them do not sum to 1 - p.
void Sampler::collect(std::span<const float> logits) {
  // Below a float's least, 0 / 0 would make the likeliest no number; at this one it has all the weight.
  const float temperature = std::max(static_cast<float>(spec_.temperature), 1e-30f);
  const float greatest = greatest_of(logits);
  candidates_.clear();
  if (spec_.top_k > 0 && static_cast<std::size_t>(spec_.top_k) < logits.size()) {
    const float least = kth_greatest(logits, spec_.top_k);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (!(logits[i] >= least)) continue;
      candidates_.push_back(
          {static_cast<std::int32_t>(i), exp_of_negative(score_of(logits[i], greatest, temperature))});
    }
    sum_ = sum_of_weights(candidates_);
    return;
  }
  sum_ = weigh(logits, greatest, temperature, weights_);
  const double least = spec_.top_p < 1 ? (1 - spec_.top_p) * sum_ / static_cast<double>(logits.size()) : 0;
  // Half of it, lest rounding leaves out what the sum would just have kept; never 0, which is no candidate.
  const float bar = std::max(static_cast<float>(least / 2), 1e-38f);
  candidates_.resize(logits.size());
  std::size_t n = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    candidates_[n] = {static_cast<std::int32_t>(i), weights_[i]};
    n += weights_[i] >= bar;
  }
  candidates_.resize(n);
}

/// Finds the bucket of weights in which the last kept candidate lies, and sorts that one only; in a bucket that holds
/// very many, it first halves the stretch in question, as quickselect does.
void Sampler::keep_top_p(std::span<const float> logits) {
  if (candidates_.empty()) return;
  const double wanted = spec_.top_p * sum_;
  bucket_mass_.assign(kBuckets, 0.0);
  for (const Candidate& c : candidates_) bucket_mass_[bucket_of(c.weight)] += c.weight;
  double mass = 0;  // of what is certainly kept
  int bucket = 0;
  while (bucket + 1 < kBuckets && mass + bucket_mass_[bucket] < wanted) mass += bucket_mass_[bucket++];

  scratch_.clear();
  for (const Candidate& c : candidates_) {
    if (bucket_of(c.weight) == bucket) scratch_.push_back(c);
  }
  const auto likelier = [&](const Candidate& a, const Candidate& b) {
    return logits[a.id] != logits[b.id] ? logits[a.id] > logits[b.id] : a.id < b.id;
  };
  const auto at = [&](std::size_t i) { return scratch_.begin() + static_cast<std::ptrdiff_t>(i); };
  std::size_t low = 0, high = scratch_.size();
  while (high - low > 256) {
    const std::size_t middle = low + (high - low) / 2;
    std::nth_element(at(low), at(middle), at(high), likelier);
    const double upper = sum_of_weights({at(low), at(middle)});
    if (mass + upper >= wanted) {
      high = middle;
    } else {
      low = middle;
      mass += upper;
    }
  }
  std::sort(at(low), at(high), likelier);
  // A candidate is kept while those before it do not reach p; the first one always is.
  while (low < high && ((low == 0 && bucket == 0) || mass < wanted)) mass += scratch_[low++].weight;
  if (low == 0) {  // nobody of this bucket
    keep_if([&](const Candidate& c) { return bucket_of(c.weight) < bucket; });
    return;
  }
  const Candidate last = scratch_[low - 1];
  keep_if([&](const Candidate& c) { return !likelier(last, c); });
}

}  // namespace kvscope
