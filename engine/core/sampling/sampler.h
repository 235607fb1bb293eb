#pragma once
// From logits to the next token.

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// ln sum exp of the logits, in double precision. Not finite if a logit is NaN or all are -inf.
double log_sum_exp(std::span<const float> logits);

/// Draws tokens as the samplers of transformers do, in their order (GenerationMixin._get_logits_processor):
///
///     l_i <- l_i / r if l_i >= 0, else l_i r     repetition penalty r, for every id of prompt and answer so far
///     l_i <- l_i / temperature
///     top_k   keeps the k greatest, and all that equal the last of them
///     top_p   of these the fewest, greatest first, whose softmax probabilities reach p; of equal ones the lower ids
///     min_p   of these the ones whose probability is at least p times the greatest
///
/// and then from the softmax of what is left. Temperature 0: the greatest l, of equal ones the lower id. 151,936 logits
/// take about 0.1 ms greedy or with top_k, 0.5 ms with top_p alone: nothing is sorted that need not be.
///
/// The same seed draws the same tokens on every machine: std::mt19937_64 is fixed by the standard, and the way from its
/// bits to a token is here rather than in the library's distributions, which are not.
class Sampler {
 public:
  explicit Sampler(const SamplingSpec& spec) : spec_(spec), random_(spec.seed) {}

  /// True if next() is the greatest logit whatever the rest are.
  bool is_greedy() const { return spec_.temperature == 0 && spec_.repetition_penalty == 1; }

  /// `so_far`: prompt and answer up to here; only what was added since the last call is read. An id outside the logits
  /// counts for nothing. Throws std::invalid_argument if no logit is a number.
  std::int32_t next(std::span<const float> logits, std::span<const std::int32_t> so_far = {});

  struct Candidate {
    std::int32_t id;
    float weight;  // exp((l_id - greatest l) / temperature): the probability is weight over the sum of the weights
  };
  /// What next() draws from, in ascending order of ids. temperature > 0. Valid until the next call.
  std::span<const Candidate> candidates(std::span<const float> logits, std::span<const std::int32_t> so_far = {});

 private:
  std::span<const float> penalised(std::span<const float> logits, std::span<const std::int32_t> so_far);
  void note(std::span<const std::int32_t> so_far);
  void collect(std::span<const float> logits);
  void keep_top_p(std::span<const float> logits);
  void keep_if(const auto& is_kept);

  SamplingSpec spec_;
  std::mt19937_64 random_;
  std::size_t n_noted_ = 0;                 // of so_far
  std::vector<std::int32_t> distinct_;      // ids in it
  std::vector<bool> is_noted_;              // by id
  std::vector<float> penalised_, weights_;  // by id
  std::vector<Candidate> candidates_, scratch_;
  std::vector<double> bucket_mass_;
  double sum_ = 0;  // of the weights that top_p refers to
};

}  // namespace kvscope
