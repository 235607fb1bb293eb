#include "kernels/cpu/norm_rotate.h"

#include <cmath>

#include "kernels/cpu/vector.h"

namespace kvscope::kernels::cpu {

Rotation rotation_at(std::int32_t position, const float* inv_freq, int head_dim, float attention_scaling) {
  Rotation rotation;
  for (int i = 0; i < head_dim / 2; ++i) {
    const float angle = static_cast<float>(position) * inv_freq[i];
    rotation.cosine[i] = inv_freq[i] == 0 ? 1 : std::cos(angle) * attention_scaling;
    rotation.sine[i] = std::sin(angle) * attention_scaling;
  }
  return rotation;
}

const float* normed(const void* data, std::int64_t index, const void* weight, float eps, float offset, int dim,
                    DType dtype, float* buffer) {
  const float* row = as_floats(data, index, dim, dtype, buffer);
  if (!weight) return row;
  float weight_buffer[kMaxHeadDim];
  const float inverse = 1 / std::sqrt(dot(row, row, dim) / static_cast<float>(dim) + eps);
  scale_by(buffer, row, inverse, norm_factors(weight, dim, dtype, offset, weight_buffer), dim);
  return buffer;
}

void rotate(const float* row, const Rotation& rotation, int dim, float* x) {
  const int half = dim / 2;
  for (int i = 0; i < half; ++i) {
    const float low = row[i], high = row[i + half];
    x[i] = low * rotation.cosine[i] - high * rotation.sine[i];
    x[i + half] = high * rotation.cosine[i] + low * rotation.sine[i];
  }
}

void round_to(float* x, int dim, DType dtype) {
  if (dtype == DType::f32) return;
  BFloat16 rounded[kMaxHeadDim];
  narrow(x, rounded, dim);
  widen(rounded, x, dim);
}

}  // namespace kvscope::kernels::cpu
