#include "kernels/rope.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

struct Problem {
  int n_tokens, n_heads, head_dim;
  std::vector<float> x;
  std::vector<std::int32_t> positions;
  std::vector<float> inv_freq;
  float attention_scaling = 1;
};

Problem random_problem(int n_tokens, int n_heads, int head_dim, DType dtype) {
  Problem p = {n_tokens, n_heads, head_dim,
               rounded(random_normal(static_cast<std::size_t>(n_tokens) * n_heads * head_dim, 4), dtype)};
  // Far positions too: there the rounding of the angle is as large as the angle of the slow dimensions.
  for (int i = 0; i < n_tokens; ++i) p.positions.push_back(i % 3 == 2 ? 131071 - i : i * 37);
  for (int i = 0; i < head_dim / 2; ++i) p.inv_freq.push_back(std::pow(1e6f, -2.0f * i / head_dim));
  return p;
}

std::vector<float> run(Backend backend, const Problem& p, DType dtype) {
  Memory memory(backend);
  auto* x = memory.put(pack(p.x, dtype));
  const RopeArgs args = {.x = x,
                         .positions = memory.put(p.positions),
                         .inv_freq = memory.put(p.inv_freq),
                         .n_tokens = p.n_tokens,
                         .n_heads = p.n_heads,
                         .head_dim = p.head_dim,
                         .attention_scaling = p.attention_scaling,
                         .dtype = dtype};
  rope(args, {backend});
  return unpack(memory.get(x), dtype);
}

/// Float arithmetic with sine and cosine rounded to the dtype, as a model in that dtype holds them.
std::vector<float> naive(const Problem& p, DType dtype) {
  std::vector<float> out = p.x;
  const int half = p.head_dim / 2;
  for (int row = 0; row < p.n_tokens * p.n_heads; ++row) {
    for (int i = 0; i < half; ++i) {
      const float angle = static_cast<float>(p.positions[row / p.n_heads]) * p.inv_freq[i];
      const float cosine = rounded(std::cos(angle) * p.attention_scaling, dtype);
      const float sine = rounded(std::sin(angle) * p.attention_scaling, dtype);
      const float low = p.x[row * p.head_dim + i];
      const float high = p.x[row * p.head_dim + i + half];
      out[row * p.head_dim + i] = rounded(low * cosine - high * sine, dtype);
      out[row * p.head_dim + i + half] = rounded(high * cosine + low * sine, dtype);
    }
  }
  return out;
}

void check_against_reference(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int head_dim = GENERATE(2, 64, 80, 96, 128, 256);
  const int n_tokens = GENERATE(1, 33);
  const float scaling = GENERATE(1.0f, 1.25f);
  CAPTURE(head_dim, n_tokens, scaling, static_cast<int>(dtype));
  Problem p = random_problem(n_tokens, 3, head_dim, dtype);
  p.attention_scaling = scaling;
  const auto expected = run(Backend::reference, p, DType::f32);
  CHECK(max_error(run(backend, p, dtype), expected) <=
        allowed_error(max_error(naive(p, dtype), expected), expected, dtype));
}

}  // namespace

TEST_CASE("rope: position 0 changes nothing", "[kernels][rope]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  Problem p = random_problem(4, 2, 64, DType::f32);
  p.positions.assign(4, 0);
  CHECK(run(backend, p, DType::f32) == p.x);
}

TEST_CASE("rope: the product of two rotated vectors depends on their distance alone", "[kernels][rope]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  const auto product_at = [&](std::int32_t first, std::int32_t second) {
    Problem p = random_problem(2, 1, 64, DType::f32);
    p.positions = {first, second};
    const auto x = run(backend, p, DType::f32);
    double sum = 0;
    for (int i = 0; i < 64; ++i) sum += static_cast<double>(x[i]) * x[64 + i];
    return sum;
  };
  // 64 products of magnitude 1, angles below 128 rounded to 2^-17: some 1e-5 each.
  CHECK(product_at(3, 17) == Approx(product_at(103, 117)).margin(3e-4));
  CHECK(std::abs(product_at(3, 17) - product_at(3, 18)) > 1e-2);
}

TEST_CASE("rope: the CPU version is as exact as a plain one", "[kernels][rope]") {
  check_against_reference(Backend::cpu);
}

TEST_CASE("rope: the CUDA version is as exact as a plain one", "[kernels][rope][cuda]") {
  if (skip_without_device()) return;
  check_against_reference(Backend::cuda);
}
