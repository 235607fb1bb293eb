#pragma once
// The running softmax of one query row: keys come tile by tile, nothing is stored but (maximum, denominator, output).

#include <cmath>
#include <cstdint>

#include "kernels/cpu/vector.h"
#include "kernels/score_variant.h"

namespace kvscope::kernels::cpu {

/// Products q . k become scores (score_variant.h).
inline void make_scores(float* dots, float factor, float cap, std::int64_t n) {
  scale(dots, factor, n);
  if (cap > 0) soft_cap(dots, cap, n);
}

/// m = greatest logit so far, l = sum of exp(logit - m).
struct OnlineSoftmax {
  float m = -INFINITY;
  float l = 0;

  /// Nothing seen but the sink logit of a head, where there is one.
  static OnlineSoftmax of_sink(const ScoreVariant& variant, int head) {
    if (variant.sink == nullptr || variant.sink[head] == -INFINITY) return {};
    return {variant.sink[head], 1};
  }

  /// Turns a tile of `n` logits (-inf: not seen) into weights exp(logit - m) and returns the factor by which the output
  /// so far has to be multiplied.
  float absorb(float* logits, std::int64_t n) {
    const float m_new = std::fmax(m, maximum(logits, n));
    const float shift = m_new == -INFINITY ? 0 : m_new;  // nothing seen yet: -inf - -inf would be NaN
    const float correction = std::exp(m - shift);
    l = l * correction + exp_and_sum(logits, shift, n);
    m = m_new;
    return correction;
  }
  /// Factor that turns the weighted sum into the weighted mean; 0 if nothing was seen. A NaN stays visible.
  float normaliser() const { return l == 0 ? 0 : 1 / l; }
  float lse() const { return m + std::log(l); }  // -inf + log 0 = -inf
};

}  // namespace kvscope::kernels::cpu
