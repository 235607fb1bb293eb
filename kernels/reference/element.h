#pragma once
// How the references read and write elements, whatever the dtype, one double at a time; the activations.

#include <cmath>
#include <numbers>

#include "kernels/bfloat16.h"
#include "kernels/dtype.h"
#include "kernels/glu.h"
#include "kernels/score_variant.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels::reference {

inline double load(const void* data, std::int64_t index, DType dtype) {
  return dtype == DType::f32 ? static_cast<const float*>(data)[index]
                             : to_float(static_cast<const BFloat16*>(data)[index]);
}

inline void store(void* data, std::int64_t index, DType dtype, double value) {
  const auto rounded = static_cast<float>(value);
  if (dtype == DType::f32) {
    static_cast<float*>(data)[index] = rounded;
  } else {
    static_cast<BFloat16*>(data)[index] = to_bfloat16(rounded);
  }
}

/// What `dtype` can hold of a value.
inline float rounded(float value, DType dtype) { return dtype == DType::f32 ? value : to_float(to_bfloat16(value)); }

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x / (1 + std::exp(-x)); }
inline double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
inline double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

/// What a gate makes of `up` (glu.h).
inline double gated(GluActivation activation, double gate, double up) {
  if (activation == GluActivation::silu) return silu(gate) * up;
  if (activation == GluActivation::gelu_tanh) return gelu_tanh(gate) * up;
  const double limit = kClampedLimit, x = gate > limit ? limit : gate;
  return x * sigmoid(double{kClampedAlpha} * x) * (1 + (up > limit ? limit : up < -limit ? -limit : up));
}

/// A product q . k as a score (score_variant.h).
inline double score(double dot, double scale, double soft_cap) {
  return soft_cap > 0 ? soft_cap * std::tanh(scale * dot / soft_cap) : scale * dot;
}
/// The sink logit of a head; -inf without.
inline double sink_of(const ScoreVariant& variant, int head) { return variant.sink ? variant.sink[head] : -INFINITY; }
/// What a sink logit adds to a denominator that is relative to `maximum`.
inline double sink_weight(double sink, double maximum) { return sink == -INFINITY ? 0 : std::exp(sink - maximum); }

/// Index of the first element of slot `slot` of `head` in k_pool and v_pool.
inline std::int64_t first_element_of(const SlotCacheView& cache, int head, std::int32_t slot) {
  const std::int64_t page =
      cache.page_table[static_cast<std::int64_t>(head) * cache.max_pages + slot / cache.page_size];
  return (page * cache.page_size + slot % cache.page_size) * cache.head_dim;
}

/// Index of slot 0 of `head` in slot_position and slot_priority.
inline std::int64_t first_slot_of(const SlotCacheView& cache, int head) {
  return static_cast<std::int64_t>(head) * cache.max_pages * cache.page_size;
}

}  // namespace kvscope::kernels::reference
