#include "kernels/logit_summary.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

/// Twice, as a decode loop calls it: the scratch of the first call must serve the second.
LogitSummary run(Backend backend, const std::vector<float>& logits) {
  Memory memory(backend);
  auto* out = memory.put(std::vector<LogitSummary>(1, {-9, NAN, NAN, NAN}));
  const LogitSummaryArgs args = {.logits = memory.put(logits),
                                 .out = out,
                                 .n = static_cast<std::int64_t>(logits.size()),
                                 .scratch = memory.put(std::vector<char>(kLogitSummaryScratchBytes, 0))};
  logit_summary(args, {backend});
  const LogitSummary first = memory.get(out)[0];
  logit_summary(args, {backend});
  const LogitSummary second = memory.get(out)[0];
  CHECK(second.best == first.best);
  CHECK((second.log_sum_exp == first.log_sum_exp || std::isnan(first.log_sum_exp)));
  return second;
}

void check_random(Backend backend) {
  const int n = GENERATE(1, 2, 31, 4096, 4097, 32768, 151'936);
  const float sigma = GENERATE(0.01f, 3.0f, 50.0f);
  CAPTURE(n, sigma);
  const auto logits = random_normal(n, 51, sigma);
  const LogitSummary found = run(backend, logits);
  const auto greatest = std::max_element(logits.begin(), logits.end());
  CHECK(found.best == greatest - logits.begin());
  CHECK(found.best_logit == *greatest);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - *greatest);
  const double expected = *greatest + std::log(sum);
  // A float32 sum of n exponentials, each right to 3e-7, in at least 8 lanes: n / 8 roundings of 2^-24 in chunks of at
  // most 4096; then the result itself is rounded.
  CHECK(std::abs(found.log_sum_exp - expected) <= 3e-5 + 0x1p-23 * std::abs(expected));
}

void check_ties(Backend backend) {
  const int n = GENERATE(3, 5000, 70'000);
  const int first = GENERATE(0, 1, 2);
  const int gap = n > 4097 ? GENERATE(1, 4096, 4097) : 1;
  std::vector<float> logits(n, -1.0f);
  for (int i = first; i < n; i += gap) logits[i] = 2.5f;
  CAPTURE(n, first, gap);
  CHECK(run(backend, logits).best == first);
}

void check_special(Backend backend) {
  constexpr float kNothing = -INFINITY;
  auto logits = random_normal(9000, 52);
  std::fill_n(logits.begin(), 5000, kNothing);  // a whole chunk of them
  logits[8000] = 40;
  LogitSummary found = run(backend, logits);
  CHECK(found.best == 8000);
  CHECK(found.log_sum_exp == Approx(40));

  logits[7] = NAN;
  found = run(backend, logits);
  CHECK(found.best == 8000);
  CHECK(found.best_logit == 40);
  CHECK(std::isnan(found.log_sum_exp));

  found = run(backend, std::vector<float>(5000, kNothing));
  CHECK(found.best == -1);
  CHECK(found.log_sum_exp == kNothing);
  found = run(backend, std::vector<float>(5000, NAN));
  CHECK(found.best == -1);
  CHECK(std::isnan(found.log_sum_exp));
}

/// exp(88) overflows float32: only differences may be taken.
void check_large(Backend backend) {
  const float size = GENERATE(-3e4f, 3e4f);
  std::vector<float> logits(6000, size);
  CHECK(run(backend, logits).log_sum_exp == Approx(size + std::log(6000.0)).epsilon(1e-6));
}

/// 40 rows are more than a launch takes.
void check_rows(Backend backend) {
  const int n = GENERATE(31, 32768);
  Memory memory(backend);
  std::vector<LogitSummaryArgs> rows;
  for (int row = 0; row < 40; ++row) {
    rows.push_back({.logits = memory.put(random_normal(n, 60 + row, 3)),
                    .out = memory.put(std::vector<LogitSummary>(1)),
                    .n = n,
                    .scratch = memory.put(std::vector<char>(kLogitSummaryScratchBytes, 0))});
  }
  logit_summary(rows, {backend});
  for (int row = 0; row < 40; ++row) {
    const LogitSummary among = memory.get(rows[row].out)[0], alone = run(backend, random_normal(n, 60 + row, 3));
    CHECK(among.best == alone.best);
    CHECK(among.best_logit == alone.best_logit);
    CHECK(among.log_sum_exp == alone.log_sum_exp);
  }
}

}  // namespace

TEST_CASE("logit_summary: finds the greatest logit and the sum of all", "[kernels][logit_summary]") {
  check_random(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("logit_summary: of equal logits the least id is the best", "[kernels][logit_summary]") {
  check_ties(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("logit_summary: NaN shows in the sum and is never the best, -inf weighs nothing",
          "[kernels][logit_summary]") {
  check_special(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("logit_summary: does not overflow", "[kernels][logit_summary]") {
  check_large(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("logit_summary: refuses an empty row", "[kernels][logit_summary][validate]") {
  CHECK_THROWS_WITH(logit_summary({.n = 0}, {}), "logit_summary: n is 0; expected 1 ... 2147483647");
}

TEST_CASE("logit_summary: on CUDA finds the greatest logit and the sum of all", "[kernels][logit_summary][cuda]") {
  if (skip_without_device()) return;
  check_random(Backend::cuda);
}

TEST_CASE("logit_summary: on CUDA of equal logits the least id is the best", "[kernels][logit_summary][cuda]") {
  if (skip_without_device()) return;
  check_ties(Backend::cuda);
}

TEST_CASE("logit_summary: on CUDA NaN shows in the sum, -inf weighs nothing, and nothing overflows",
          "[kernels][logit_summary][cuda]") {
  if (skip_without_device()) return;
  SECTION("special numbers") { check_special(Backend::cuda); }
  SECTION("large numbers") { check_large(Backend::cuda); }
}

TEST_CASE("logit_summary: a row gives the same bits alone or among others", "[kernels][logit_summary]") {
  check_rows(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("logit_summary: on CUDA a row gives the same bits alone or among others", "[kernels][logit_summary][cuda]") {
  if (skip_without_device()) return;
  check_rows(Backend::cuda);
}
