#include "kernels/glu.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

struct Problem {
  int n_rows, dim;
  DType dtype;
  std::vector<float> gate_up;
  GluActivation activation = GluActivation::silu;
};

Problem random_problem(int n_rows, int dim, GluActivation activation, DType dtype) {
  return {n_rows, dim, dtype, rounded(random_normal(2 * static_cast<std::size_t>(n_rows) * dim, 51, 4), dtype),
          activation};
}

std::vector<float> run(Backend backend, const Problem& p, DType dtype) {
  Memory memory(backend);
  auto* out = memory.put(poison(static_cast<std::size_t>(p.n_rows) * p.dim, dtype));
  const GluArgs args = {.gate_up = memory.put(pack(p.gate_up, dtype)),
                        .out = out,
                        .n_rows = p.n_rows,
                        .dim = p.dim,
                        .activation = p.activation,
                        .dtype = dtype};
  glu(args, {backend});
  return unpack(memory.get(out), dtype);
}

float activated(GluActivation activation, float x) {
  if (activation == GluActivation::silu) return x / (1 + std::exp(-x));
  return 0.5f * x * (1 + std::tanh(0.797884561f * (x + 0.044715f * x * x * x)));
}

/// The gate and the factor of GluActivation::clamped, one operation after the other, rounded after each.
float clamped(float x, float up, DType dtype) {
  const auto round = [&](float value) { return rounded(value, dtype); };
  const float g = std::min(x, 7.0f), u = std::clamp(up, -7.0f, 7.0f);
  const float sigmoid = round(1 / (1 + std::exp(-round(1.702f * g))));
  return round(round(g * sigmoid) * round(u + 1));
}

/// Two tensor operations, rounded after each.
std::vector<float> naive(const Problem& p) {
  std::vector<float> out;
  for (int row = 0; row < p.n_rows; ++row) {
    const float* x = p.gate_up.data() + static_cast<std::size_t>(row) * 2 * p.dim;
    for (int i = 0; i < p.dim; ++i) {
      if (p.activation == GluActivation::clamped) {
        out.push_back(clamped(x[i], x[p.dim + i], p.dtype));
        continue;
      }
      out.push_back(rounded(rounded(activated(p.activation, x[i]), p.dtype) * x[p.dim + i], p.dtype));
    }
  }
  return out;
}

void check_shapes(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int dim = GENERATE(1, 7, 8, 192, 1025, 3072);  // parts of 16 bytes, of a vector and of a piece
  const int n_rows = GENERATE(0, 1, 33);
  const GluActivation activation = GENERATE(GluActivation::silu, GluActivation::gelu_tanh, GluActivation::clamped);
  CAPTURE(dim, n_rows, static_cast<int>(activation), static_cast<int>(dtype));
  const Problem p = random_problem(n_rows, dim, activation, dtype);
  const std::vector<float> expected = run(Backend::reference, p, DType::f32);
  CHECK(max_error(run(backend, p, dtype), expected) <= allowed_error(max_error(naive(p), expected), expected, dtype));
}

/// f(0) = 0, f(x) goes to x above and to 0 below, also where exp overflows; a NaN stays one.
void check_ends(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Problem p = {1,
                     8,
                     dtype,
                     {0, 100, -100, 1e30f, -1e30f, 20, -200, NAN, 1, 2, 3, 1, 1, 1, 1, 1},
                     GENERATE(GluActivation::silu, GluActivation::gelu_tanh)};
  const std::vector<float> out = run(backend, p, dtype);
  CHECK(out[0] == 0);
  CHECK(out[1] == 200);
  CHECK(std::abs(out[2]) < 1e-30f);
  CHECK(out[3] == rounded(1e30f, dtype));
  CHECK(std::abs(out[4]) < 1e-7f);
  CHECK(out[5] == Approx(20));
  CHECK(std::abs(out[6]) < 1e-30f);
  CHECK(std::isnan(out[7]));
}

/// Gates above 7 are 7, ups outside -7 ... 7 are the nearest of the two, and a NaN of either stays one.
void check_clamped(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const auto of = [&](std::vector<float> gates, std::vector<float> ups) {
    gates.insert(gates.end(), ups.begin(), ups.end());
    return run(backend, {1, static_cast<int>(ups.size()), dtype, gates, GluActivation::clamped}, dtype);
  };
  const float at_limit = static_cast<float>(7 / (1 + std::exp(-7 * 1.702)));
  const std::vector<float> out = of({7, 8, 1e30f, 7, 7, 0, -1e30f, -200, NAN, 1}, {0, 0, 0, 9, -9, 3, 3, 7, 1, NAN});
  for (const int i : {0, 1, 2}) CHECK(out[i] == rounded(at_limit, dtype));
  CHECK(out[3] == rounded(8 * at_limit, dtype));
  CHECK(out[4] == rounded(-6 * at_limit, dtype));
  CHECK(out[5] == 0);
  CHECK(std::abs(out[6]) < 1e-7f);
  CHECK(std::abs(out[7]) < 1e-30f);
  CHECK(std::isnan(out[8]));
  CHECK(std::isnan(out[9]));
}

}  // namespace

TEST_CASE("glu: the clamped gate is limited where it should be", "[kernels][glu]") {
  check_clamped(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("glu: on CUDA the clamped gate is limited where it should be", "[kernels][glu][cuda]") {
  if (skip_without_device()) return;
  check_clamped(Backend::cuda);
}

TEST_CASE("glu: large and small gates saturate", "[kernels][glu]") {
  check_ends(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("glu: the CPU version is as exact as a plain one", "[kernels][glu]") { check_shapes(Backend::cpu); }

TEST_CASE("glu: on CUDA large and small gates saturate", "[kernels][glu][cuda]") {
  if (skip_without_device()) return;
  check_ends(Backend::cuda);
}

TEST_CASE("glu: the CUDA version is as exact as a plain one", "[kernels][glu][cuda]") {
  if (skip_without_device()) return;
  check_shapes(Backend::cuda);
}
