#include "engine/core/files/weights/mxfp4.h"

#include <cmath>

namespace kvscope {

void unpack_mxfp4(const std::uint8_t* block, std::uint8_t scale, float* out) {
  // Twice the numbers, times half the factor: that is a float32 for every scale.
  static constexpr float kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
  const float factor = std::ldexp(1.0f, scale - 128);
  for (int i = 0; i < kPackedBytes; ++i) {
    out[2 * i] = kTwice[block[i] & 15] * factor;
    out[2 * i + 1] = kTwice[block[i] >> 4] * factor;
  }
}

}  // namespace kvscope
