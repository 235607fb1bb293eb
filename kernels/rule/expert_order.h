#pragma once
// Which of two experts a router chooses first, shared word for word by the three back ends so that they choose alike.

#include <cstdint>

#include "kernels/host_device.h"

namespace kvscope::kernels {

/// Index -1: no expert, after which every other goes. The greater logit first, of equal ones the lower index; a NaN last.
KVSCOPE_HOST_DEVICE inline bool goes_first(float logit, std::int32_t index, float other, std::int32_t other_index) {
  if (index < 0 || other_index < 0) return other_index < 0 && index >= 0;
  const bool is_nan = logit != logit, other_is_nan = other != other;
  if (is_nan != other_is_nan) return other_is_nan;
  return is_nan || logit == other ? index < other_index : logit > other;
}

}  // namespace kvscope::kernels
