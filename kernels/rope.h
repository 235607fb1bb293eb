#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// Rotary position embedding in place, "half rotation" as in Qwen and Llama: with h = head_dim / 2, i < h and
/// angle a = position * inv_freq[i],
///
///     x[i]     <- x[i] cos a - x[i + h] sin a
///     x[i + h] <- x[i + h] cos a + x[i] sin a        (both times `attention_scaling`)
///
/// The angle is the float32 product of position and inv_freq, as transformers computes it. A pair of frequency 0 stays as it
/// is, without attention_scaling: partial rotation.
struct RopeArgs {
  void* x;                        // [n_tokens, n_heads, head_dim], contiguous; rotated in place
  const std::int32_t* positions;  // [n_tokens], device memory for the CUDA version
  const float* inv_freq;          // [head_dim / 2], likewise
  std::int64_t n_tokens;
  int n_heads;
  int head_dim;             // even, at most 256
  float attention_scaling;  // 1 but for YaRN and longrope
  DType dtype;
};

KVSCOPE_OPERATION(rope, RopeArgs);

}  // namespace kvscope::kernels
