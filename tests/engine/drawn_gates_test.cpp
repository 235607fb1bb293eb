// SP-KV's gates while they are drawn (eq. 10 to 12) and while they become hard (eq. 7).

#include "engine/jobs/train/drawn_gates.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

using namespace kvscope::engine;

TEST_CASE("drawn gates are 0 or 1 ahead and soft on the way back, as SP-KV's eq. 10 to 12 say") {
  constexpr std::int64_t kDraws = 100'000;
  constexpr double kLeast = 0.1;
  constexpr int kSinks = 2;
  const double utility = GENERATE(0.02, 0.3, 0.5, 0.85, 0.99);
  CAPTURE(utility);
  at::manual_seed(17);
  const at::Tensor u = at::full({1, 1, kDraws}, utility, at::kFloat).set_requires_grad(true);
  const at::Tensor added = log_gates(u, {.sampled = true, .least_probability = kLeast, .n_sink = kSinks});
  const at::Tensor ahead = added.detach().flatten(), open = ahead > -1;
  CHECK(ahead.masked_select(open).abs().max().item<double>() < 1e-4);
  CHECK((ahead.masked_select(open.logical_not()) - std::log(1e-30)).abs().max().item<double>() < 1e-4);
  for (int sink = 0; sink < kSinks; ++sink) CHECK(open[sink].item<bool>());
  const double p = std::min(std::max(utility, kLeast), 1 - kLeast);
  const double share = open.narrow(0, kSinks, kDraws - kSinks).to(at::kDouble).mean().item<double>();
  CHECK(std::abs(share - p) < 4 * std::sqrt(p * (1 - p) / (kDraws - kSinks)));

  added.sum().backward();
  const double slope = 1 / (u[0][0][0].item<double>() + 1e-6);
  CHECK((u.grad() - slope).abs().max().item<double>() < 1e-5 * slope);
}

TEST_CASE("soft gates add their logarithm, and gates that are not drawn keep it") {
  const at::Tensor u = at::tensor({0.0, 0.25, 1.0}).to(at::kFloat).view({1, 1, 3});
  const at::Tensor soft = log_gates(u, {}), binary = log_gates(u, {.binary = true, .sampled = true});
  for (int t = 0; t < 3; ++t) {
    const double value = u[0][0][t].item<double>();
    CHECK(soft[0][0][t].item<double>() == Approx(std::log(value + 1e-6)).margin(1e-5));
    CHECK(binary[0][0][t].item<double>() == Approx(std::log(value + 1e-30)).margin(1e-5));
  }
}

TEST_CASE("gates become hard as SP-KV's eq. 7 says, and do not learn from then on") {
  const double alpha = GENERATE(0.0, 0.25, 0.5, 1.0), tau = GENERATE(0.5, 0.25);
  CAPTURE(alpha, tau);
  const at::Tensor u =
      at::tensor({0.125, 0.25, 0.375, 0.5, 0.75, 1.0}).to(at::kFloat).view({1, 1, 6}).set_requires_grad(true);
  const at::Tensor counted = counted_gates(u, {.hard = alpha, .open_from = tau, .n_sink = 1});
  CHECK(counted.requires_grad() == (alpha == 0));
  CHECK(counted[0][0][0].item<double>() == 1);
  for (int t = 1; t < 6; ++t) {
    const double value = u[0][0][t].item<double>();
    CHECK(counted[0][0][t].item<double>() == Approx((1 - alpha) * value + alpha * (value >= tau)).margin(1e-6));
  }
}
