#pragma once
// Test data and how results are compared.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/dtype.h"

namespace kvscope::test {

/// Normal numbers of standard deviation `sigma`, the same for the same seed.
std::vector<float> random_normal(std::size_t n, std::uint32_t seed, float sigma = 1);

/// The nearest values that `dtype` can hold: what a kernel sees of them.
std::vector<float> rounded(std::vector<float> values, kernels::DType dtype);
float rounded(float value, kernels::DType dtype);

/// As elements of `dtype`, and back.
std::vector<std::byte> pack(const std::vector<float>& values, kernels::DType dtype);
std::vector<float> unpack(const std::vector<std::byte>& bytes, kernels::DType dtype);

/// n elements, all NaN: what an output holds before the run, so that a cell nobody writes is noticed.
std::vector<std::byte> poison(std::size_t n, kernels::DType dtype);
std::vector<float> poison(std::size_t n);

/// Greatest absolute difference; infinity if sizes differ or a NaN meets a number. Equal infinities differ by 0.
double max_error(const std::vector<float>& found, const std::vector<float>& expected);

/// FlashAttention's rule: at most twice the error of a plain implementation in the same dtype, whose operations are
/// merely ordered otherwise. The bar follows dtype and size by itself. `unit` of the last place at the largest output
/// is added, since on tiny cases the plain one may be exact by luck: one rounding of a bfloat16, four of a float32 (exp
/// and log are allowed two each).
double allowed_error(double naive_error, const std::vector<float>& expected, kernels::DType dtype);

}  // namespace kvscope::test
