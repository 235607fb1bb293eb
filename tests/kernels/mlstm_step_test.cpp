#include "kernels/mlstm_step.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

struct Problem {
  int n_steps, n_heads, d_key, d_value, delay;
  std::vector<float> q, k;          // [n_steps, n_heads, d_key], positive as a Hedgehog map leaves them
  std::vector<float> v;             // [n_steps, n_heads, d_value]
  std::vector<float> log_i, log_f;  // [n_steps, n_heads]
  bool guarded = false;
};

std::vector<float> positive(std::vector<float> x, int d) {
  for (float& value : x) value = std::exp(value) / static_cast<float>(d);
  return x;
}

Problem random_problem(int n_steps, int n_heads, int d_key, int d_value, int delay) {
  const std::size_t n = static_cast<std::size_t>(n_steps) * n_heads;
  Problem p = {n_steps, n_heads, d_key, d_value, delay};
  p.q = positive(random_normal(n * d_key, 61), d_key);
  p.k = positive(random_normal(n * d_key, 62), d_key);
  p.v = random_normal(n * d_value, 63);
  p.log_i = random_normal(n, 64, 4);
  p.log_f = random_normal(n, 65, 2);
  for (float& f : p.log_f) f = -std::log1p(std::exp(-f));  // log sigmoid
  return p;
}

struct Result {
  std::vector<float> h;     // [n_steps, n_heads, d_value]; NaN where there was no read
  std::vector<float> c, m;  // the state after the last step
};

Result run(Backend backend, const Problem& p) {
  Memory memory(backend);
  const int heads = p.n_heads;
  auto* c = memory.put(std::vector<float>(static_cast<std::size_t>(heads) * p.d_key * p.d_value, 0.0f));
  auto* z = memory.put(std::vector<float>(static_cast<std::size_t>(heads) * p.d_key, 0.0f));
  auto* m = memory.put(std::vector<float>(heads, -INFINITY));
  auto* h = memory.put(poison(p.v.size()));
  const float* q = memory.put(p.q);
  const float* k = memory.put(p.k);
  const float* v = memory.put(p.v);
  const float* log_i = memory.put(p.log_i);
  const float* log_f = memory.put(p.log_f);
  for (int t = 0; t < p.n_steps; ++t) {
    const MlstmStepArgs args = {.c = c,
                                .z = z,
                                .m = m,
                                .k = k + t * heads * p.d_key,
                                .v = v + t * heads * p.d_value,
                                .log_i = log_i + t * heads,
                                .log_f = log_f + t * heads,
                                .q = t >= p.delay ? q + (t - p.delay) * heads * p.d_key : nullptr,
                                .h = h + t * heads * p.d_value,
                                .n_heads = heads,
                                .d_key = p.d_key,
                                .d_value = p.d_value,
                                .guarded = p.guarded};
    mlstm_step(args, {backend});
  }
  return {memory.get(h), memory.get(c), memory.get(m)};
}

/// The quadratic form with its row maximum m_t, in double: h_t = sum_s w_s v_s / max(sum_s w_s, 1e-6), or, guarded,
/// / max(sum_s w_s, exp(-m_t)), with w_s = (q . k_s) exp(log_i_s + sum of log_f over (s, t] - m_t). The read at t is
/// the query of t - delay.
Result quadratic(const Problem& p) {
  Result result = {poison(p.v.size()), {}, std::vector<float>(p.n_heads)};
  for (int head = 0; head < p.n_heads; ++head) {
    for (int t = 0; t < p.n_steps; ++t) {
      std::vector<double> gate(t + 1);
      double forgotten = 0;
      for (int s = t; s >= 0; --s) {
        gate[s] = p.log_i[s * p.n_heads + head] + forgotten;
        forgotten += p.log_f[s * p.n_heads + head];
      }
      const double m = *std::max_element(gate.begin(), gate.end());
      result.m[head] = static_cast<float>(m);
      if (t < p.delay) continue;
      const float* q = p.q.data() + ((t - p.delay) * p.n_heads + head) * p.d_key;
      double norm = 0;
      std::vector<double> sum(p.d_value, 0.0);
      for (int s = 0; s <= t; ++s) {
        double product = 0;
        for (int i = 0; i < p.d_key; ++i)
          product += static_cast<double>(q[i]) * p.k[(s * p.n_heads + head) * p.d_key + i];
        const double weight = product * std::exp(gate[s] - m);
        norm += weight;
        for (int j = 0; j < p.d_value; ++j) sum[j] += weight * p.v[(s * p.n_heads + head) * p.d_value + j];
      }
      const double denominator = std::max(norm, p.guarded ? std::exp(-m) : 1e-6);
      for (int j = 0; j < p.d_value; ++j) {
        result.h[(t * p.n_heads + head) * p.d_value + j] = static_cast<float>(sum[j] / denominator);
      }
    }
  }
  return result;
}

/// Equal, cell by cell, where `expected` is a number; untouched where it is NaN.
void check_same(const std::vector<float>& found, const std::vector<float>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  double error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::isnan(found[i]) == std::isnan(expected[i]));
    if (!std::isnan(found[i])) error = std::max(error, std::abs(static_cast<double>(found[i]) - expected[i]));
  }
  CHECK(error < tolerance);
}

void check_against_quadratic(Backend backend) {
  const auto [d_key, d_value] = GENERATE(table<int, int>({{64, 64}, {128, 64}, {1, 1}, {17, 5}, {48, 80}, {256, 256}}));
  const int delay = GENERATE(0, 7);
  const bool guarded = GENERATE(false, true);
  CAPTURE(d_key, d_value, delay, guarded);
  Problem p = random_problem(40, 3, d_key, d_value, delay);
  p.guarded = guarded;
  const Result expected = quadratic(p);
  const Result found = run(backend, p);
  // h is a weighted mean of values near 1. 40 steps round the state 40 times at 2^-24 of its largest term, and the
  // running maximum up to |m| ~ 50 carries 2^-18 into the gates.
  check_same(found.h, expected.h, 1e-4);
  check_same(found.m, expected.m, 1e-4);
}

void check_closed_gates(Backend backend) {
  Problem p = random_problem(6, 2, 64, 64, 0);
  std::fill_n(p.log_i.begin(), 4, -INFINITY);  // the first two steps let nothing in
  p.log_f[3 * 2] = -INFINITY;                  // and step 3 of head 0 forgets everything
  p.guarded = GENERATE(false, true);
  const Result result = run(backend, p);
  for (int i = 0; i < 2 * 2 * 64; ++i) REQUIRE(result.h[i] == 0);  // 0 / max(0, 1e-6), 0 / exp(inf)
  for (int j = 0; j < 64 && !p.guarded; ++j) {
    // A memory of one token gives back its value: q . k cancels.
    REQUIRE(result.h[3 * 2 * 64 + j] == Approx(p.v[3 * 2 * 64 + j]).margin(1e-5));
  }
  for (const float c : result.c) REQUIRE(std::isfinite(c));
}

}  // namespace

TEST_CASE("mlstm_step: a sequence of steps equals the quadratic form", "[kernels][mlstm_step]") {
  check_against_quadratic(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("mlstm_step: closed gates let nothing in and leave no NaN", "[kernels][mlstm_step]") {
  check_closed_gates(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("mlstm_step: a place on CUDA is refused", "[kernels][mlstm_step]") {
  float x = 0;
  const MlstmStepArgs args = {
      .c = &x, .z = &x, .m = &x, .k = &x, .v = &x, .log_i = &x, .log_f = &x, .n_heads = 1, .d_key = 1, .d_value = 1};
  CHECK_THROWS_WITH(mlstm_step(args, {Backend::cuda}), "mlstm_step: on CUDA it is part of admit_step");
}
