#include "engine/core/files/weights/float_values.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace kvscope {
namespace {

std::uint16_t word_at(const std::string& bytes, std::size_t i) {
  std::uint16_t word;
  std::memcpy(&word, bytes.data() + 2 * i, sizeof word);
  return word;
}

/// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits.
float from_half(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float sign = half & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent == 31) return fraction ? std::nanf("") : sign * HUGE_VALF;
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

}  // namespace

std::vector<float> to_floats(const std::string& type_name, const std::string& bytes) {
  std::vector<float> values(bytes.size() / (type_name == "F32" ? 4 : 2));
  if (type_name == "F32") {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else if (type_name == "BF16") {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(word_at(bytes, i)) << 16);
    }
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = from_half(word_at(bytes, i));
  }
  return values;
}

}  // namespace kvscope
