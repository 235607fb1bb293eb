// The inner loops and the thread pool of the CPU back end.
#include "kernels/cpu/vector.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <thread>

#include "kernels/parallel_for.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

TEST_CASE("bfloat16: rounds to nearest, ties to even, and keeps NaN and infinity", "[kernels][cpu]") {
  const auto bits = [](float x) { return to_bfloat16(x).bits; };
  CHECK(bits(1.0f) == 0x3f80);
  CHECK(bits(1.0f + 0x1p-8f) == 0x3f80);             // half way between 0x3f80 and 0x3f81: even
  CHECK(bits(1.0f + 0x3p-8f) == 0x3f82);             // half way between 0x3f81 and 0x3f82: even
  CHECK(bits(1.0f + 0x1p-8f + 0x1p-20f) == 0x3f81);  // just above
  CHECK(bits(-INFINITY) == 0xff80);
  CHECK(bits(std::numeric_limits<float>::max()) == 0x7f80);  // nearest is infinity
  CHECK(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7fffffffu)))));
}

TEST_CASE("exp_and_sum: is exp to 3e-7 and 0 for what is not seen", "[kernels][cpu]") {
  std::vector<float> x;
  for (float value = 0; value > -87; value -= 0.0137f) x.push_back(value);
  const std::size_t n_seen = x.size();
  x.insert(x.end(), {-88.0f, -1e30f, -INFINITY});
  std::vector<float> e = x;
  const float sum = cpu::exp_and_sum(e.data(), 0, static_cast<std::int64_t>(e.size()));
  double expected_sum = 0;
  for (std::size_t i = 0; i < n_seen; ++i) {
    const double expected = std::exp(static_cast<double>(x[i]));
    CAPTURE(x[i]);
    REQUIRE(std::abs(e[i] - expected) <= 3e-7 * expected);
    expected_sum += expected;
  }
  for (std::size_t i = n_seen; i < e.size(); ++i) CHECK(e[i] == 0);
  CHECK(sum == Approx(expected_sum).epsilon(5e-5));  // some 800 terms a lane, each rounded at 2^-24 of the sum
}

TEST_CASE("multiply: is the matrix product, added to or not, for every shape", "[kernels][cpu]") {
  const int m = GENERATE(1, 3, 4, 9);
  const int k = GENERATE(1, 7, 64);
  const int n = GENERATE(8, 16, 24, 80);
  const bool accumulate = GENERATE(false, true);
  CAPTURE(m, k, n, accumulate);
  const int lda = k + 3, ldb = n + 5, ldc = n + 2;
  const auto a = random_normal(m * lda, 71);
  const auto b = random_normal(k * ldb, 72);
  const auto before = random_normal(m * ldc, 73);
  auto c = before;
  cpu::multiply(a.data(), lda, b.data(), ldb, c.data(), ldc, m, k, n, accumulate);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < ldc; ++j) {
      double sum = accumulate || j >= n ? before[i * ldc + j] : 0;
      for (int l = 0; l < k && j < n; ++l) sum += static_cast<double>(a[i * lda + l]) * b[l * ldb + j];
      REQUIRE(c[i * ldc + j] == Approx(sum).margin(2e-5));  // 64 products of size 1, each rounded at 2^-24
    }
  }
}

TEST_CASE("threads: OMP_NUM_THREADS limits the project's own threads too, and what is no number does not",
          "[kernels][cpu]") {
  CHECK(thread_limit(nullptr, 8) == 8);
  CHECK(thread_limit("3", 8) == 3);
  CHECK(thread_limit("16", 8) == 8);
  CHECK(thread_limit("2,4", 8) == 2);
  for (const char* nothing : {"", "0", "-1", "many"}) CHECK(thread_limit(nothing, 8) == 8);
}

TEST_CASE("parallel_for: calls every index once, from several threads at once and from within", "[kernels][cpu]") {
  constexpr std::int64_t kExpensive = 1'000'000;
  std::vector<std::atomic<int>> calls(500);
  const auto job = [&] {
    parallel_for(250, kExpensive, [&](std::int64_t i) {
      ++calls[i];
      parallel_for(2, kExpensive, [&](std::int64_t) { ++calls[250 + i]; });
    });
  };
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 4; ++i)
      callers.emplace_back([&] {
        for (int n = 0; n < 50; ++n) job();
      });
  }
  for (int i = 0; i < 250; ++i) {
    REQUIRE(calls[i] == 200);
    REQUIRE(calls[250 + i] == 400);
  }
}

TEST_CASE("silu and gelu: are what they are called, from end to end", "[kernels][cpu]") {
  std::vector<float> x = random_normal(1000, 81, 3);
  x.insert(x.end(), {0.0f, -0.0f, 100.0f, -100.0f, 1e30f, -1e30f});
  std::vector<float> silu = x, gelu = x;
  cpu::silu(silu.data(), static_cast<std::int64_t>(x.size()));
  cpu::gelu(gelu.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    CAPTURE(at);
    REQUIRE(silu[i] == Approx(at / (1 + std::exp(-at))).epsilon(1e-6).margin(1e-7));
    REQUIRE(gelu[i] == Approx(at / 2 * (1 + std::erf(at / std::sqrt(2.0)))).epsilon(1e-6).margin(1e-6));
  }
}
