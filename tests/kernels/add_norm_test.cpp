#include "kernels/add_norm.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

constexpr float kEps = 1e-6f;

struct Problem {
  int n_rows, dim;
  float weight_offset;
  DType dtype;
  std::vector<float> x, weight, residual;
};

Problem random_problem(int n_rows, int dim, float weight_offset, DType dtype) {
  const auto n = static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(dim);
  return {n_rows,
          dim,
          weight_offset,
          dtype,
          random_normal(n, 61, 3),
          rounded(random_normal(static_cast<std::size_t>(dim), 62), dtype),
          random_normal(n, 63)};
}

std::vector<float> run(Backend backend, const Problem& p) {
  Memory memory(backend);
  float* residual = memory.put(p.residual);
  add_norm({.x = memory.put(p.x),
            .weight = memory.put(pack(p.weight, p.dtype)),
            .residual = residual,
            .n_rows = p.n_rows,
            .dim = p.dim,
            .eps = kEps,
            .weight_offset = p.weight_offset,
            .dtype = p.dtype},
           {backend});
  return memory.get(residual);
}

std::vector<float> naive(const Problem& p) {
  std::vector<float> out = p.residual;
  for (int row = 0; row < p.n_rows; ++row) {
    const float* x = p.x.data() + row * p.dim;
    float sum = 0;
    for (int i = 0; i < p.dim; ++i) sum += x[i] * x[i];
    const float inverse = 1 / std::sqrt(sum / static_cast<float>(p.dim) + kEps);
    for (int i = 0; i < p.dim; ++i) out[row * p.dim + i] += x[i] * inverse * (p.weight_offset + p.weight[i]);
  }
  return out;
}

void check_rows(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int dim = GENERATE(1, 7, 64, 640, 2561, 16384), n_rows = GENERATE(1, 5);
  const float weight_offset = GENERATE(0.0f, 1.0f);
  CAPTURE(dim, n_rows, weight_offset, static_cast<int>(dtype));
  const Problem p = random_problem(n_rows, dim, weight_offset, dtype);
  const auto expected = run(Backend::reference, p);
  CHECK(max_error(run(backend, p), expected) <= allowed_error(max_error(naive(p), expected), expected, DType::f32));
  // A row's result does not depend on its company.
  Problem last = random_problem(n_rows, dim, weight_offset, dtype);
  last.n_rows = 1;
  last.x.erase(last.x.begin(), last.x.end() - dim);
  last.residual.erase(last.residual.begin(), last.residual.end() - dim);
  const auto all = run(backend, p);
  CHECK(run(backend, last) == std::vector<float>(all.end() - dim, all.end()));
}

}  // namespace

TEST_CASE("add_norm: a row of equal numbers adds the weight", "[kernels][add_norm]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  const Problem p = {
      1, 64, 0, DType::f32, std::vector<float>(64, 3.0f), random_normal(64, 3), std::vector<float>(64, 0.0f)};
  // eps moves the result by eps / (2 * 9), far below the tolerance of one part in a million.
  CHECK(max_error(run(backend, p), p.weight) < 3e-6);
}

TEST_CASE("add_norm: the CPU version is as exact as a plain one", "[kernels][add_norm]") { check_rows(Backend::cpu); }

TEST_CASE("add_norm: on CUDA is as exact as a plain one", "[kernels][add_norm][cuda]") {
  if (skip_without_device()) return;
  check_rows(Backend::cuda);
}

TEST_CASE("add_norm: refuses a missing pointer by name", "[kernels][add_norm][validate]") {
  float x = 0;
  const AddNormArgs args = {.x = &x, .weight = &x, .residual = nullptr, .n_rows = 1, .dim = 1, .eps = kEps};
  CHECK_THROWS_WITH(add_norm(args, {}), "add_norm: residual is null");
}
