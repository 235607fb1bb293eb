#include "kernels/rms_norm.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

struct Problem {
  int n_rows, dim, x_stride;
  DType dtype;
  std::vector<float> x, weight;
  float weight_offset = 0;
};

Problem random_problem(int n_rows, int dim, int gap, DType dtype) {
  const int stride = dim + gap;
  return {n_rows,
          dim,
          stride,
          dtype,
          rounded(random_normal(static_cast<std::size_t>(n_rows) * stride, 1, 3), dtype),
          rounded(random_normal(dim, 2), dtype)};
}

constexpr float kEps = 1e-6f;

std::vector<float> run(Backend backend, const Problem& p, DType dtype, bool in_place = false) {
  Memory memory(backend);
  auto* x = memory.put(pack(p.x, dtype));
  auto* out = in_place ? x : memory.put(poison(static_cast<std::size_t>(p.n_rows) * p.dim, dtype));
  const RmsNormArgs args = {.x = x,
                            .weight = memory.put(pack(p.weight, dtype)),
                            .out = out,
                            .n_rows = p.n_rows,
                            .x_stride = p.x_stride,
                            .out_stride = in_place ? p.x_stride : 0,
                            .dim = p.dim,
                            .eps = kEps,
                            .weight_offset = p.weight_offset,
                            .dtype = dtype};
  rms_norm(args, {backend});
  return unpack(memory.get(out), dtype);
}

/// Float arithmetic, rounded to the dtype after the norm and after the weight, as two tensor operations would.
std::vector<float> naive(const Problem& p) {
  std::vector<float> out;
  for (int row = 0; row < p.n_rows; ++row) {
    const float* x = p.x.data() + row * p.x_stride;
    float sum = 0;
    for (int i = 0; i < p.dim; ++i) sum += x[i] * x[i];
    const float inverse = 1 / std::sqrt(sum / static_cast<float>(p.dim) + kEps);
    for (int i = 0; i < p.dim; ++i)
      out.push_back(rounded(rounded(x[i] * inverse, p.dtype) * (p.weight_offset + p.weight[i]), p.dtype));
  }
  return out;
}

void check_against_reference(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int dim = GENERATE(1, 7, 64, 1000, 1024, 16384);
  const int gap = GENERATE(0, 24);
  CAPTURE(dim, gap, static_cast<int>(dtype));
  Problem p = random_problem(5, dim, gap, dtype);
  p.weight_offset = GENERATE(0.0f, 1.0f);
  const auto expected = run(Backend::reference, p, DType::f32);
  const double bar = allowed_error(max_error(naive(p), expected), expected, dtype);
  CHECK(max_error(run(backend, p, dtype), expected) <= bar);
  // In its own place: what is between the rows stays.
  std::vector<float> in_place = p.x;
  for (int row = 0; row < p.n_rows; ++row)
    std::copy_n(expected.begin() + row * p.dim, p.dim, in_place.begin() + row * p.x_stride);
  CHECK(max_error(run(backend, p, dtype, true), in_place) <= bar);
}

}  // namespace

TEST_CASE("rms_norm: a row of equal numbers becomes the weight", "[kernels][rms_norm]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  Problem p = {1, 64, 64, DType::f32, std::vector<float>(64, 3.0f), random_normal(64, 3)};
  // eps moves the result by eps / (2 * 9), far below the tolerance of one part in a million.
  CHECK(max_error(run(backend, p, DType::f32), p.weight) < 3e-6);
}

TEST_CASE("rms_norm: scaling the input does not change the output", "[kernels][rms_norm]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  Problem p = random_problem(3, 256, 0, DType::f32);
  const auto before = run(backend, p, DType::f32);
  for (float& x : p.x) x *= 1024;  // a power of two changes no mantissa; only eps weighs less
  CHECK(max_error(run(backend, p, DType::f32), before) < 1e-5);
}

TEST_CASE("rms_norm: the CPU version is as exact as a plain one", "[kernels][rms_norm]") {
  check_against_reference(Backend::cpu);
}

TEST_CASE("rms_norm: the CUDA version is as exact as a plain one", "[kernels][rms_norm][cuda]") {
  if (skip_without_device()) return;
  check_against_reference(Backend::cuda);
}
