#include "kernels/route_experts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

struct Choice {
  std::vector<std::int32_t> expert;
  std::vector<float> weight;
};

Choice run(Backend backend, const std::vector<float>& logits, int n_tokens, int n_chosen, bool normalised) {
  Memory memory(backend);
  const std::size_t n = static_cast<std::size_t>(n_tokens) * n_chosen;
  const RouteExpertsArgs args = {.logits = memory.put(logits),
                                 .expert = memory.put(std::vector<std::int32_t>(n, -1)),
                                 .weight = memory.put(poison(n)),
                                 .n_tokens = n_tokens,
                                 .n_experts = static_cast<int>(logits.size()) / n_tokens,
                                 .n_chosen = n_chosen,
                                 .normalised = normalised};
  route_experts(args, {backend});
  return {memory.get(args.expert), memory.get(args.weight)};
}

/// Softmax, a stable sort by probability, the first of it, in order: what transformers' router does, in double.
Choice by_sorting(const std::vector<float>& logits, int n_tokens, int n_chosen, bool normalised) {
  const int n_experts = static_cast<int>(logits.size()) / n_tokens;
  Choice out;
  for (int t = 0; t < n_tokens; ++t) {
    const float* l = logits.data() + static_cast<std::ptrdiff_t>(t) * n_experts;
    const double greatest = *std::max_element(l, l + n_experts);
    std::vector<double> p(static_cast<std::size_t>(n_experts));
    for (int e = 0; e < n_experts; ++e) p[e] = std::exp(l[e] - greatest);
    const double all = std::accumulate(p.begin(), p.end(), 0.0);
    std::vector<std::int32_t> order(p.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return l[a] > l[b]; });
    order.resize(static_cast<std::size_t>(n_chosen));
    std::sort(order.begin(), order.end());
    double chosen = 0;
    for (const std::int32_t e : order) chosen += p[e];
    for (const std::int32_t e : order) out.weight.push_back(static_cast<float>(p[e] / (normalised ? chosen : all)));
    out.expert.insert(out.expert.end(), order.begin(), order.end());
  }
  return out;
}

void check_choices(Backend backend) {
  const int n_experts = GENERATE(1, 2, 31, 32, 33, 60, 128, kMaxRoutedExperts);
  const bool normalised = GENERATE(false, true);
  for (const int wanted : {1, 2, 8, 64, n_experts}) {
    const int n_chosen = std::min(wanted, n_experts);
    for (const int n_tokens : {1, 3, 37}) {
      const auto logits = random_normal(static_cast<std::size_t>(n_tokens) * n_experts, 7, 3);
      CAPTURE(n_experts, n_chosen, n_tokens, normalised);
      const Choice found = run(backend, logits, n_tokens, n_chosen, normalised);
      const Choice expected = by_sorting(logits, n_tokens, n_chosen, normalised);
      CHECK(found.expert == expected.expert);
      CHECK(max_error(found.weight, expected.weight) < 1e-6);  // two exponentials, a sum and a quotient in float32
    }
  }
}

void check_ties(Backend backend) {
  CHECK(run(backend, {1, 2, 2, 2, 1}, 1, 2, true).expert == std::vector<std::int32_t>{1, 2});
  CHECK(run(backend, {0, -0.0f, 0, 5}, 1, 3, true).expert == std::vector<std::int32_t>{0, 1, 3});
  const Choice equal = run(backend, std::vector<float>(100, 3.5f), 1, 4, true);
  CHECK(equal.expert == std::vector<std::int32_t>{0, 1, 2, 3});
  CHECK(equal.weight == std::vector<float>(4, 0.25f));
  // Probabilities that are 0 in float32 still have an order.
  CHECK(run(backend, {-300, 0, -200, -400}, 1, 2, true).expert == std::vector<std::int32_t>{1, 2});
}

void check_not_finite(Backend backend) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(run(backend, {nan, 1, nan, 0}, 1, 2, true).expert == std::vector<std::int32_t>{1, 3});
  CHECK(run(backend, std::vector<float>(40, nan), 1, 3, true).expert == std::vector<std::int32_t>{0, 1, 2});
  CHECK(run(backend, std::vector<float>(40, -INFINITY), 1, 3, true).expert == std::vector<std::int32_t>{0, 1, 2});
}

void check_alone_or_among_others(Backend backend) {
  const auto logits = random_normal(37 * 128, 9, 2);
  const Choice all = run(backend, logits, 37, 8, true);
  for (int t = 0; t < 37; ++t) {
    const Choice one = run(backend, {logits.begin() + t * 128, logits.begin() + (t + 1) * 128}, 1, 8, true);
    CHECK(std::equal(one.expert.begin(), one.expert.end(), all.expert.begin() + t * 8));
    CHECK(std::equal(one.weight.begin(), one.weight.end(), all.weight.begin() + t * 8));
  }
}

}  // namespace

TEST_CASE("route_experts: chooses the greatest logits, with the weights of their softmax", "[kernels][experts]") {
  check_choices(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("route_experts: of equal logits the lowest index goes first", "[kernels][experts]") {
  check_ties(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("route_experts: a logit that is no number goes last, and an index is always one of an expert",
          "[kernels][experts]") {
  check_not_finite(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("route_experts: a token gives the same bits alone or among others", "[kernels][experts]") {
  check_alone_or_among_others(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("route_experts: refuses what does not fit, by name and value", "[kernels][experts][validate]") {
  float x[4] = {};
  std::int32_t e[4] = {};
  RouteExpertsArgs args = {.logits = x, .expert = e, .weight = x, .n_tokens = 1, .n_experts = 4, .n_chosen = 5};
  CHECK_THROWS_WITH(route_experts(args, {}), "route_experts: n_chosen is 5; expected 1 ... 4");
  args.n_experts = kMaxRoutedExperts + 1;
  CHECK_THROWS_WITH(route_experts(args, {}), "route_experts: n_experts is 1025; expected 1 ... 1024");
  args.n_experts = 4;
  args.n_chosen = 4;
  args.weight = nullptr;
  CHECK_THROWS_WITH(route_experts(args, {Backend::reference}), "route_experts: weight is null");
  args.n_tokens = 0;
  CHECK_NOTHROW(route_experts(args, {}));
}

TEST_CASE("route_experts: on CUDA chooses as the reference does", "[kernels][experts][cuda]") {
  if (skip_without_device()) return;
  SECTION("the greatest logits") { check_choices(Backend::cuda); }
  SECTION("the lowest index first") { check_ties(Backend::cuda); }
  SECTION("no number last") { check_not_finite(Backend::cuda); }
  SECTION("alone or among others") { check_alone_or_among_others(Backend::cuda); }
}
