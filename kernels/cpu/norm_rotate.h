#pragma once
// One head's row of queries or keys on its way into the cache: norm, then rotation (rms_norm.h, rope.h). Serves
// admit_step and gate_score.

#include <cstdint>

#include "kernels/cpu/vector.h"

namespace kvscope::kernels::cpu {

/// cos and sin of position * inv_freq, times the attention scaling.
struct Rotation {
  float cosine[kMaxHeadDim / 2];
  float sine[kMaxHeadDim / 2];
};
Rotation rotation_at(std::int32_t position, const float* inv_freq, int head_dim, float attention_scaling);

/// Elements [index, index + dim) of `data` as floats, normed where there is a `weight` [dim] of the same dtype, which is added to `offset`; not
/// rounded. The data themselves where nothing is to be done, else `buffer` [dim].
const float* normed(const void* data, std::int64_t index, const void* weight, float eps, float offset, int dim,
                    DType dtype, float* buffer);

/// x [dim] <- row, rotated; x must not be row.
void rotate(const float* row, const Rotation& rotation, int dim, float* x);

/// Rounds x [dim] to what `dtype` can hold.
void round_to(float* x, int dim, DType dtype);

}  // namespace kvscope::kernels::cpu
