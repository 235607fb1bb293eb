#pragma once
// bfloat16 on the host: the upper half of a float32.

#include <bit>
#include <cstdint>

namespace kvscope::kernels {

/// Storage of one bfloat16. Arithmetic is done in float.
struct BFloat16 {
  std::uint16_t bits;
};

constexpr float to_float(float x) { return x; }
constexpr float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

/// Rounds to nearest, ties to even, as the device does. NaN stays NaN (the rounding carry could turn it into infinity).
constexpr BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40u : rounded >> 16)};
}

}  // namespace kvscope::kernels
