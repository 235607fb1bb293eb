#pragma once
// From logits to the next token.

#include <cstdint>
#include <random>
#include <span>

#include "engine/core/run/run_record.h"

namespace kvscope::engine {

/// ln sum exp of the logits, in double precision. Not finite if a logit is NaN or all are -inf.
double log_sum_exp(std::span<const float> logits);

/// Draws tokens, the same ones for the same seed on every machine: std::mt19937_64 is fixed by the standard, and the
/// way from its bits to a token is here rather than in the library's distributions, which are not.
class Sampler {
 public:
  explicit Sampler(const SamplingSpec& spec) : spec_(spec), random_(spec.seed) {}

  /// True if next() is the greatest logit whatever the rest are.
  bool is_greedy() const { return spec_.temperature == 0; }
  /// temperature 0: the highest logit, of equal ones the lower id. Otherwise a draw from softmax(logits / temperature)
  /// over the top_k most likely tokens (0: all), of these the fewest that together reach top_p.
  std::int32_t next(std::span<const float> logits);

 private:
  std::int32_t draw(std::span<const float> logits);
  SamplingSpec spec_;
  std::mt19937_64 random_;
};

}  // namespace kvscope::engine
