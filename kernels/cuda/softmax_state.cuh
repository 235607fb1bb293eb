#pragma once
// The running softmax of one query row, in base 2: keys come tile by tile or in parts that were summed apart; nothing is
// kept but the maximum, the denominator and, with the caller, the weighted sum.

namespace kvscope::kernels {

constexpr float kLog2E = 1.44269504089f;
constexpr float kLn2 = 0.69314718056f;

/// 2^x to 2 units of the last place, 0 for what would be denormal: exp2f keeps that, for three more instructions.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Without initialisers, since it also lies in shared memory: it starts as nothing_seen(), element by element of an
/// array (nvcc 13.0 leaves the second row of a `State state[2][2]` with initialisers zero, and a maximum that starts at
/// 0 loses all weights of a row whose logits are far below).
struct SoftmaxState {
  float m;  // greatest logit so far
  float l;  // sum of exp2(logit - m)

  /// What logits are shifted by: m, or 0 while nothing was seen, since -inf - -inf would be NaN.
  __device__ float shift() const { return m == -INFINITY ? 0.0f : m; }
  /// What a logit counts; also the factor for a part that was summed under the maximum `x`.
  __device__ float weight(float x) const { return exp2f(x - shift()); }

  /// Takes in the maximum of a tile; returns the factor for what was summed before. The tile's weights come after.
  __device__ float raise(float tile_max) {
    const float before = m;
    m = fmaxf(m, tile_max);
    const float correction = weight(before);
    l *= correction;
    return correction;
  }
  /// Takes in a part that was summed apart, after m has been raised to the greatest maximum of all parts; returns the
  /// factor for the part's weighted sum.
  __device__ float add(const SoftmaxState& part) {
    const float factor = weight(part.m);
    l += factor * part.l;
    return factor;
  }

  /// The weighted mean of what was weighted and summed as `o`; 0 if nothing was seen.
  __device__ float mean(float o) const { return l == 0 ? 0.0f : o / l; }
  __device__ float inverse() const { return l == 0 ? 0.0f : 1 / l; }
  /// Natural logarithm of the denominator; -inf for a row that saw nothing.
  __device__ float lse() const { return kLn2 * (m + log2f(l)); }
};

__device__ inline SoftmaxState nothing_seen() { return {-INFINITY, 0}; }

}  // namespace kvscope::kernels
