#pragma once
// The variants of attention (score_variant.h) as template arguments, so that one without soft cap and sink is compiled
// without either.

#include "kernels/cuda/softmax_state.cuh"
#include "kernels/score_variant.h"

namespace kvscope::kernels {

/// score() of a product q . k, in units of `unit`: kLog2E for a softmax in base 2, 1 for the natural one. score(-inf), a
/// hidden key, is -inf. exponent() is score() less a finite shift; without a soft cap it takes one instruction.
struct PlainScores {
  static constexpr bool kMayHaveSink = false;
  float factor;

  PlainScores(float scale, float unit) : factor(scale * unit) {}
  __device__ float score(float dot) const { return dot * factor; }
  __device__ float exponent(float dot, float shift) const { return fmaf(dot, factor, -shift); }
};

struct SinkScores : PlainScores {
  static constexpr bool kMayHaveSink = true;
  using PlainScores::PlainScores;
};

struct SoftCapScores {
  static constexpr bool kMayHaveSink = true;  // asked at run time: beside tanh that costs nothing
  float inner, outer;

  SoftCapScores(float scale, float soft_cap, float unit) : inner(scale / soft_cap), outer(soft_cap * unit) {}
  __device__ float score(float dot) const { return dot == -INFINITY ? dot : outer * tanhf(inner * dot); }
  __device__ float exponent(float dot, float shift) const { return score(dot) - shift; }
};

/// Calls f(scores) for an operation without a softmax, which no sink concerns.
template <typename F>
void dispatch_soft_cap(float scale, float soft_cap, float unit, F&& f) {
  if (soft_cap > 0) return f(SoftCapScores(scale, soft_cap, unit));
  f(PlainScores(scale, unit));
}

/// Calls f(scores) for a softmax in base 2.
template <typename F>
void dispatch_scores(float scale, const ScoreVariant& variant, F&& f) {
  if (variant.soft_cap == 0 && variant.sink != nullptr) return f(SinkScores(scale, kLog2E));
  dispatch_soft_cap(scale, variant.soft_cap, kLog2E, f);
}

/// Joins the sink logit of a head, if there is one, to the softmax of all its keys, in base 2. Returns the factor for
/// what was weighted and summed.
template <class Scores>
__device__ inline float join_sink(const float* sink, int head, SoftmaxState& state) {
  if constexpr (Scores::kMayHaveSink) {
    if (sink == nullptr) return 1.0f;
    const float logit = sink[head] * kLog2E;
    const float correction = state.raise(logit);
    state.l += state.weight(logit);
    return correction;
  }
  return 1.0f;
}

}  // namespace kvscope::kernels
