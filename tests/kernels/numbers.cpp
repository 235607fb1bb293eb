#include "tests/kernels/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/bfloat16.h"

namespace kvscope::test {

using kernels::BFloat16;
using kernels::DType;

std::vector<float> random_normal(std::size_t n, std::uint32_t seed, float sigma) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, sigma);
  std::vector<float> values(n);
  for (float& value : values) value = normal(generator);
  return values;
}

float rounded(float value, DType dtype) {
  return dtype == DType::f32 ? value : kernels::to_float(kernels::to_bfloat16(value));
}

std::vector<float> rounded(std::vector<float> values, DType dtype) {
  for (float& value : values) value = rounded(value, dtype);
  return values;
}

std::vector<std::byte> pack(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * kernels::size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const BFloat16 half = kernels::to_bfloat16(values[i]);
    const void* element = dtype == DType::f32 ? static_cast<const void*>(&values[i]) : &half;
    std::memcpy(bytes.data() + i * kernels::size_of(dtype), element, kernels::size_of(dtype));
  }
  return bytes;
}

std::vector<float> unpack(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<float> values(bytes.size() / kernels::size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    BFloat16 half;
    void* element = dtype == DType::f32 ? static_cast<void*>(&values[i]) : &half;
    std::memcpy(element, bytes.data() + i * kernels::size_of(dtype), kernels::size_of(dtype));
    if (dtype == DType::bf16) values[i] = kernels::to_float(half);
  }
  return values;
}

std::vector<std::byte> poison(std::size_t n, DType dtype) { return pack(poison(n), dtype); }

std::vector<float> poison(std::size_t n) { return std::vector<float>(n, std::numeric_limits<float>::quiet_NaN()); }

double max_error(const std::vector<float>& found, const std::vector<float>& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (found.size() != expected.size()) return kInfinity;
  double error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    const double difference = std::abs(static_cast<double>(found[i]) - expected[i]);
    error = std::isnan(difference) ? kInfinity : std::max(error, difference);
  }
  return error;
}

double allowed_error(double naive_error, const std::vector<float>& expected, DType dtype) {
  double largest = 0;
  for (const float value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  const double unit = dtype == DType::f32 ? 0x1p-22 : 0x1p-8;
  return 2 * naive_error + unit * largest;
}

}  // namespace kvscope::test
