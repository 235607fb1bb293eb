#pragma once
// Scores wait in a ring between the step that makes them and the step at which their token leaves the window.

#include <cstdint>

#include "kernels/host_device.h"

namespace kvscope::kernels {

/// Puts `score`, made at step `position` for token position - delay, where it will be looked for, and returns that of
/// the newcomer, token position - window (0 while there is none). `ring` [window + 1] of one head; 0 <= delay <=
/// window, so that no cell is written again before it has been read.
KVSCOPE_HOST_DEVICE inline float through_ring(float* ring, int window, int delay, std::int32_t position, float score) {
  const std::int32_t scored = position - delay, newcomer = position - window;
  if (scored >= 0) ring[scored % (window + 1)] = score;
  return newcomer >= 0 ? ring[newcomer % (window + 1)] : 0.0f;
}

}  // namespace kvscope::kernels
