#pragma once
// The arithmetic of a retention contest, shared word for word by the three back ends so that they decide alike.

#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"

namespace kvscope::kernels {

/// Effective score of token t at query q: score + floor((q - t) / decay_stride) * log_gamma, in float32, one
/// multiplication and one addition. Host files that include this are compiled without fma contraction; the same bits
/// as kvscope::effective_score in engine/core/lifetime/running_top_k.h. 0 <= t <= q, decay_stride >= 1.
KVSCOPE_HOST_DEVICE inline float effective_at(float score, std::int32_t t, std::int32_t q, float log_gamma,
                                              int decay_stride) {
  const float steps = static_cast<float>((q - t) / decay_stride);
#ifdef __CUDA_ARCH__
  return __fadd_rn(score, __fmul_rn(steps, log_gamma));  // never contracted, whatever the file is compiled with
#else
  const float decay = steps * log_gamma;
  return score + decay;
#endif
}

/// One side of a contest. `position` -1 stands for nobody.
struct Contender {
  float effective;
  std::int32_t position;
  std::int32_t slot;
};

/// True if `a` leaves before `b`: the lesser effective score, of equal ones the newer token. A NaN counts as -inf,
/// which keeps this a total order (and the minimum independent of the order of the search) whatever a broken scorer
/// sends.
KVSCOPE_HOST_DEVICE inline bool leaves_before(const Contender& a, const Contender& b) {
  if (b.position < 0) return a.position >= 0;
  if (a.position < 0) return false;
  const float effective_a = a.effective == a.effective ? a.effective : -INFINITY;
  const float effective_b = b.effective == b.effective ? b.effective : -INFINITY;
  return effective_a < effective_b || (effective_a == effective_b && a.position > b.position);
}

}  // namespace kvscope::kernels
