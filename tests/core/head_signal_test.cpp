// Signals of heads against brute force: densities, taus, turnover, coverage, bytes, intervals.

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "engine/core/policy/policy.h"
#include "engine/core/study/heads/head_choice.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/student_t.h"
#include "engine/core/support/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_run.h"

using namespace kvscope;

namespace {

/// Few values, so that there are ties.
HeadValues drawn(std::mt19937& random, int n, int n_values) {
  HeadValues values;
  for (int i = 0; i < n; ++i) values.push_back(static_cast<double>(random() % static_cast<unsigned>(n_values)) / 7);
  return values;
}

}  // namespace

TEST_CASE("the density of a signal counts the long-range tokens whose score passes, and the sinks", "[core][hybrid]") {
  const RunRecord run = test::random_run(5, {.policy = "threshold:threshold=0.2,sinks=3,window=20", .oracle = false});
  const int q = run.queries() - 1;
  for (const double threshold : {-0.5, 0.2, 0.9}) {
    PolicySpec asked = run.policy;
    asked.values["threshold"] = threshold;
    const HeadValues density = admitted_density(run, asked);
    REQUIRE(density.size() == 6);
    for (std::size_t head = 0; head < 6; ++head) {
      const auto& scores = run.scores.row(static_cast<int>(head) / 3, static_cast<int>(head) % 3);
      int kept = 0, all = 0;
      for (int t = 0; t <= q - 20; ++t, ++all) kept += t < 3 || scores[static_cast<std::size_t>(t)] >= threshold;
      CHECK(density[head] == Approx(static_cast<double>(kept) / all).epsilon(1e-12));
    }
  }
}

TEST_CASE("each head's threshold keeps its share of the tokens between sinks and window, as near as whole tokens can",
          "[core][hybrid]") {
  const RunRecord run = test::random_run(5, {.policy = "threshold:threshold=0.2,sinks=3,window=20", .oracle = false});
  const int q = run.queries() - 1, n = q - 20 - 3 + 1;
  const HeadValues shares = {0, 0.1, 0.25, 0.5, 0.875, 1};
  const std::vector<float> thresholds = thresholds_of_shares(run, run.policy, shares);
  REQUIRE(thresholds.size() == 6);
  CHECK(std::isinf(thresholds[0]));
  for (std::size_t head = 0; head < 6; ++head) {
    const auto& scores = run.scores.row(static_cast<int>(head) / 3, static_cast<int>(head) % 3);
    int kept = 0;
    for (int t = 3; t <= q - 20; ++t) kept += scores[static_cast<std::size_t>(t)] >= thresholds[head];
    CAPTURE(head, kept, n);
    CHECK(std::abs(kept - shares[head] * n) <= 0.5);
  }
  PolicySpec wide = run.policy;
  wide.values["window"] = 1000;
  CHECK(test::error_of([&] { thresholds_of_shares(run, wide, shares); }).find("pieces longer than the window") !=
        std::string::npos);
}

TEST_CASE("heads that a hybrid kept local have the density that the gate would give them", "[core][hybrid]") {
  RunRecord run = test::random_run(5, {.policy = "threshold:threshold=0.2,sinks=3,window=20", .oracle = false});
  const HeadValues before = admitted_density(run, run.policy);
  test::make_local(run, {1, 0, 0, 1, 1, 0});  // what was kept is of no matter: the scores are there
  for (int head : {0, 3, 4}) {
    auto& row = run.evict_at.row(head / 3, head % 3);
    for (std::size_t t = 3; t < row.size(); ++t) row[t] = static_cast<std::int32_t>(t) + 20;
  }
  CHECK(admitted_density(run, run.policy) == before);
}

TEST_CASE("a piece no longer than the window has no density", "[core][hybrid]") {
  const RunRecord run = test::random_run(5, {.policy = "threshold:threshold=0.2,sinks=3,window=20"});
  PolicySpec wide = run.policy;
  wide.values["window"] = 1000;
  CHECK(test::error_of([&] { admitted_density(run, wide); }).find("pieces longer than the window") !=
        std::string::npos);
}

TEST_CASE("the mass that a local head loses is the sum over tokens of what their later queries give them",
          "[core][hybrid]") {
  RunRecord run = test::random_run(9, {.policy = "streaming:sinks=4,window=16"});
  run.oracle = OracleSpec::parse(kMassOfLocal);
  const HeadValues lost = mass_lost_if_local(run);
  const int n = run.oracle_horizon;
  for (int head = 0; head < 6; ++head) {
    double sum = 0;  // future_mass is the mean over the later queries
    for (int t = 4; t <= n - 1 - 16; ++t)
      sum += static_cast<double>(run.future_mass.row(head / 3, head % 3)[static_cast<std::size_t>(t)]) * (n - t - 16);
    CHECK(lost[static_cast<std::size_t>(head)] == Approx(sum / (n - 4 - 16)).epsilon(1e-5));
  }
}

TEST_CASE("Kendall's tau-b is that of counting all pairs, ties left out of their list's scale", "[core][hybrid]") {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    const HeadValues a = drawn(random, 17, 6), b = drawn(random, 17, 5);
    double concordant = 0, discordant = 0, tied_a = 0, tied_b = 0;
    for (int i = 0; i < 17; ++i) {
      for (int j = i + 1; j < 17; ++j) {
        const double product = (a[i] - a[j]) * (b[i] - b[j]);
        concordant += product > 0;
        discordant += product < 0;
        tied_a += a[i] == a[j];
        tied_b += b[i] == b[j];
      }
    }
    const double n0 = 17 * 16 / 2.0;
    CHECK(kendall_tau(a, b) ==
          Approx((concordant - discordant) / std::sqrt((n0 - tied_a) * (n0 - tied_b))).epsilon(1e-12));
    CHECK(kendall_tau(a, a) == Approx(1));
  }
  CHECK(kendall_tau(HeadValues{1, 2, 3}, HeadValues{3, 2, 1}) == Approx(-1));
  CHECK(std::isnan(kendall_tau(HeadValues{1, 1, 1}, HeadValues{3, 2, 1})));
}

TEST_CASE("turnover is the share of the heads that the other choice lacks", "[core][hybrid]") {
  const GlobalHeads a = {1, 1, 0, 0, 1, 1}, b = {1, 0, 1, 0, 1, 0}, none(6, 0);
  CHECK(turnover(a, b) == 0.5);              // 1 and 5 of 0, 1, 4, 5
  CHECK(turnover(b, a) == Approx(1.0 / 3));  // 2 of 0, 2, 4
  CHECK(turnover(a, a) == 0);
  CHECK(turnover(a, none) == 1);
  CHECK(std::isnan(turnover(none, a)));
  const GlobalHeads of_two[] = {{1, 1, 0, 0}, {1, 0, 1, 0}, {0, 0, 1, 1}};  // a half, all, a half differ
  CHECK(mean_turnover(of_two) == Approx(2.0 / 3));
  CHECK(std::isnan(mean_turnover(std::span(of_two, 1))));
}

TEST_CASE("coverage is the share of all retained entries that lies in the chosen heads", "[core][hybrid]") {
  std::mt19937 random(3);
  const int n_tokens = 77;  // of every head, so that entries are density * tokens
  HeadValues density;
  std::vector<int> entries;
  for (int i = 0; i < 12; ++i) {
    entries.push_back(static_cast<int>(random() % n_tokens));
    density.push_back(static_cast<double>(entries.back()) / n_tokens);
  }
  for (int round = 0; round < 20; ++round) {
    GlobalHeads heads;
    int chosen = 0, all = 0;
    for (int i = 0; i < 12; ++i) {
      heads.push_back(random() % 2);
      chosen += heads.back() * entries[static_cast<std::size_t>(i)];
      all += entries[static_cast<std::size_t>(i)];
    }
    CHECK(coverage(density, heads) == Approx(static_cast<double>(chosen) / all).epsilon(1e-12));
  }
  CHECK(std::isnan(coverage(HeadValues(3, 0), {1, 0, 0})));
}

TEST_CASE("mean and deviation of a signal are those over its pieces", "[core][hybrid]") {
  const HeadSignal signal{"x", {{1, 4}, {2, 4}, {6, 4}}};
  CHECK(signal.mean()[0] == Approx(3));
  CHECK(signal.deviation()[0] == Approx(std::sqrt(7.0)));  // (4 + 1 + 9) / 2
  CHECK(signal.deviation()[1] == Approx(0).margin(1e-12));
  CHECK(std::isnan(HeadSignal{"x", {{1, 4}}}.deviation()[0]));
}

TEST_CASE("the bytes of a hybrid are those of its tokens, and a limit gives the most heads that fit",
          "[core][hybrid]") {
  const CacheShape cache{.context = 1000, .n_sink = 4, .window = 96, .bytes_per_token = 256};
  CHECK(cache.bytes(3, 10) == 256.0 * (3 * 1000 + 7 * 100));
  CHECK(cache.bytes(HeadValues{0, 1, 0.5}) == 256.0 * (100 + 1000 + 550));
  for (int n = 0; n <= 10; ++n) {
    CHECK(cache.most_global(cache.bytes(n, 10), 10) == n);
    CHECK(cache.most_global(cache.bytes(n, 10) - 1, 10) == n - 1);
  }
  CHECK(cache.most_global(1e18, 10) == 10);
  const CacheShape shorter{.context = 50, .n_sink = 4, .window = 96, .bytes_per_token = 1};
  CHECK(shorter.bytes(0, 2) == shorter.bytes(2, 2));  // no head has more than the context
}

/// P(|T| <= t) by Simpson's rule over the density.
double within(double t, double degrees) {
  const double scale =
      std::exp(std::lgamma((degrees + 1) / 2) - std::lgamma(degrees / 2)) / std::sqrt(degrees * std::acos(-1.0));
  const auto density = [&](double x) { return scale * std::pow(1 + x * x / degrees, -(degrees + 1) / 2); };
  constexpr int kSteps = 20000;
  const double h = 2 * t / kSteps;
  double sum = density(-t) + density(t);
  for (int i = 1; i < kSteps; ++i) sum += density(-t + i * h) * (i % 2 ? 4 : 2);
  return sum * h / 3;
}

TEST_CASE("95 % of Student's distribution lie within its t, for every number of values up to 200", "[core][hybrid]") {
  for (int degrees = 1; degrees <= 200; ++degrees) {
    CAPTURE(degrees);
    CHECK(within(student_t_975(degrees), degrees) == Approx(0.95).margin(1e-4));
  }
  CHECK(std::isnan(student_t_975(0)));
}

TEST_CASE("the interval of a mean is Student's", "[core][hybrid]") {
  // Quantiles as tables have them.
  const std::pair<int, double> table[] = {{1, 12.7062}, {2, 4.3027},  {3, 3.1824},  {4, 2.7764},  {5, 2.5706},
                                          {7, 2.3646},  {10, 2.2281}, {15, 2.1314}, {30, 2.0423}, {120, 1.9799}};
  for (const auto& [nu, quantile] : table) {
    CAPTURE(nu);
    CHECK(student_t_975(nu) == Approx(quantile).margin(2e-4));
  }
  const MeanInterval interval = mean_interval(HeadValues{1, 2, 3, 6});
  CHECK(interval.mean == Approx(3));
  CHECK(interval.se == Approx(std::sqrt(14.0 / 3 / 4)));
  CHECK(interval.high - interval.mean == Approx(3.18245 * interval.se));
  CHECK(interval.n == 4);
  CHECK(std::isnan(mean_interval(HeadValues{1}).se));
  CHECK(std::isnan(mean_interval(HeadValues{}).mean));
}
