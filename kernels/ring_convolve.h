#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

inline constexpr int kMaxTaps = 4095;

/// A convolution over the last tokens, unit by unit (depthwise), as one token after the other comes: its row is put into
/// a ring of n_taps rows, and
///
///     out[i] = sum_j taps[j][i] x_(p - n_taps + 1 + j)[i],  j = 0 ... n_taps - 1 x_t = 0 for t < 0
///
/// for p = *position. Rows of tokens before the first are not read: what lies there need not be numbers.
///
/// float32 inside, rounded once.
struct RingConvolveArgs {
  const void* row;               // [dim] of token p
  void* ring;                    // [n_taps, dim]: token t in row t % n_taps; must not overlap row or out
  const float* taps;             // [n_taps, dim]
  void* out;                     // [dim]; may be row
  const std::int32_t* position;  // one number >= 0
  int n_taps;                    // 1 ... kMaxTaps
  int dim;                       // 1 ... 2^20
  DType dtype;                   // of row, ring and out
};

/// The position is read on the device, so that one captured launch serves every step.
KVSCOPE_OPERATION(ring_convolve, RingConvolveArgs);

}  // namespace kvscope::kernels
