// Which heads stay global: each strategy against a search of all choices, or its words.

#include "engine/core/study/heads/head_choice.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "engine/core/policy/head_strategy.h"
#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "tests/support/expect_error.h"

using namespace kvscope;

namespace {

constexpr HeadShape kShape{4, 3};

double sum_of(const HeadValues& values, const GlobalHeads& heads) {
  double sum = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) sum += heads[i] != 0 ? values[i] : 0;
  return sum;
}

GlobalHeads of_bits(unsigned bits) {
  GlobalHeads heads;
  for (int i = 0; i < 12; ++i) heads.push_back(bits >> i & 1u);
  return heads;
}

/// The greatest sum of values over all choices of `count` heads that `allowed` allows.
template <typename Allowed>
double best_sum(const HeadValues& values, int count, const Allowed& allowed) {
  double best = -1;
  for (unsigned bits = 0; bits < 1u << 12; ++bits) {
    const GlobalHeads heads = of_bits(bits);
    if (count_of(heads) == count && allowed(heads)) best = std::max(best, sum_of(values, heads));
  }
  return best;
}

int most_in_a_layer(const GlobalHeads& heads) {
  int most = 0;
  for (std::size_t layer = 0; layer < 4; ++layer)
    most = std::max(most, heads[3 * layer] + heads[3 * layer + 1] + heads[3 * layer + 2]);
  return most;
}

HeadValues drawn(unsigned seed) {
  std::mt19937 random(seed);
  HeadValues values;
  for (int i = 0; i < 12; ++i) values.push_back(static_cast<double>(random() % 9));
  return values;
}

HeadValues some_values(std::mt19937& random) {
  HeadValues values(kShape.count());
  for (double& value : values) value = std::uniform_int_distribution(-2, 6)(random);
  return values;
}

}  // namespace

TEST_CASE("proportional shares add up to the total, none above 1, by one factor for all that are below") {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const HeadValues values = some_values(random);
    const double total = std::uniform_real_distribution(0.0, 12.0)(random);
    const HeadValues shares = proportional_shares(values, total);
    const auto sum_at = [&](double factor) {
      double sum = 0;
      for (const double value : values) sum += std::min(1.0, factor * std::max(value, 0.0));
      return sum;
    };
    double low = 0, high = 1e6;  // the factor, by halving
    for (int i = 0; i < 200; ++i) (sum_at((low + high) / 2) < total ? low : high) = (low + high) / 2;
    const double rest = std::max(0.0, total - sum_at(high));
    const auto n_without = std::ranges::count_if(values, [](double value) { return value <= 0; });
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(round, i, values[i], total);
      sum += shares[i];
      const double expected = values[i] > 0 ? std::min(1.0, high * values[i]) : rest / static_cast<double>(n_without);
      CHECK(shares[i] == Approx(expected).margin(1e-9));
    }
    CHECK(sum == Approx(total).margin(1e-9));
  }
  CHECK(proportional_shares({1e300, 1e-300}, 1) == HeadValues{1, 0});
  CHECK(proportional_shares({0, 0, 0, 0}, 1) == HeadValues(4, 0.25));
  CHECK(test::error_of([] { proportional_shares({1, 2}, 2.5); }).find("0 to 2") != std::string::npos);
  CHECK(test::error_of([] { proportional_shares({1, 2}, std::nan("")); }).find("0 to 2") != std::string::npos);
}

TEST_CASE("d takes the heads of the greatest sum there is", "[core][hybrid]") {
  for (unsigned seed = 0; seed < 8; ++seed) {
    const HeadValues values = drawn(seed);
    for (const int count : {0, 1, 5, 11, 12}) {
      const GlobalHeads heads = choose_global(kShape, values, {.rule = ChoiceRule::d, .n_global = count});
      CHECK(count_of(heads) == count);
      CHECK(sum_of(values, heads) == best_sum(values, count, [](const GlobalHeads&) { return true; }));
    }
  }
}

TEST_CASE("d tells values apart that are equal as floats, and takes the earlier of equal heads", "[core][hybrid]") {
  HeadValues values(12, 1.0);
  values[7] = 1.0 + 1e-12;
  CHECK(choose_global(kShape, values, {.rule = ChoiceRule::d, .n_global = 1})[7] == 1);
  CHECK(choose_global(kShape, values, {.rule = ChoiceRule::d, .n_global = 3}) ==
        GlobalHeads{1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0});
}

TEST_CASE("capped takes the greatest sum of all choices with no more heads in a layer than the cap", "[core][hybrid]") {
  for (unsigned seed = 0; seed < 8; ++seed) {
    const HeadValues values = drawn(seed);
    for (const auto& [count, cap] : {std::pair(4, 1), std::pair(5, 2), std::pair(8, 2), std::pair(7, 3)}) {
      const GlobalHeads heads =
          choose_global(kShape, values, {.rule = ChoiceRule::capped, .n_global = count, .cap = cap});
      CHECK(count_of(heads) == count);
      CHECK(most_in_a_layer(heads) <= cap);
      const int limit = cap;
      CHECK(sum_of(values, heads) ==
            best_sum(values, count, [limit](const GlobalHeads& h) { return most_in_a_layer(h) <= limit; }));
    }
  }
}

TEST_CASE("without a cap capped takes the smallest that has room", "[core][hybrid]") {
  const HeadValues values = {9, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  CHECK(most_in_a_layer(choose_global(kShape, values, {.rule = ChoiceRule::capped, .n_global = 4})) == 1);
  CHECK(most_in_a_layer(choose_global(kShape, values, {.rule = ChoiceRule::capped, .n_global = 5})) == 2);
}

TEST_CASE("layers takes the whole layers of the greatest sum", "[core][hybrid]") {
  const auto whole = [](const GlobalHeads& heads) {
    for (std::size_t layer = 0; layer < 4; ++layer)
      if (heads[3 * layer] != heads[3 * layer + 1] || heads[3 * layer] != heads[3 * layer + 2]) return false;
    return true;
  };
  for (unsigned seed = 0; seed < 8; ++seed) {
    const HeadValues values = drawn(seed);
    for (const auto& [asked, got] : {std::pair(0, 0), std::pair(3, 3), std::pair(4, 3), std::pair(5, 6)}) {
      const GlobalHeads heads = choose_global(kShape, values, {.rule = ChoiceRule::layers, .n_global = asked});
      CHECK(count_of(heads) == got);
      CHECK(whole(heads));
      CHECK(sum_of(values, heads) == best_sum(values, got, whole));
    }
  }
}

TEST_CASE("a, b and c choose as the policy does", "[core][hybrid]") {
  const HeadsOfModel model{.n_layers = 4, .n_kv_heads = 3};
  CHECK(choose_global(kShape, {}, {.rule = ChoiceRule::a}) == GlobalHeads{1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1});
  CHECK(choose_global(kShape, {}, {.rule = ChoiceRule::b}) == GlobalHeads{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
  CHECK(own_count(ChoiceRule::a, kShape) == 6);
  CHECK(own_count(ChoiceRule::b, kShape) == 3);
  CHECK(own_count(ChoiceRule::d, kShape) == std::nullopt);
  CHECK(own_count(ChoiceRule::layers, kShape) == std::nullopt);
  const auto local = local_heads_by(HeadStrategy::c, model, 5, 42);
  const GlobalHeads heads = choose_global(kShape, {}, {.rule = ChoiceRule::c, .n_global = 5, .seed = 42});
  for (std::size_t i = 0; i < 12; ++i) CHECK(heads[i] + local[i] == 1);
}

TEST_CASE("a number of heads that the model or the cap has no room for is refused", "[core][hybrid]") {
  const HeadValues values(12, 0);
  const auto refused = [&](const ChoiceQuestion& question) {
    return test::error_of([&] { choose_global(kShape, values, question); });
  };
  CHECK(refused({.rule = ChoiceRule::d, .n_global = 13}).find("0 to 12") != std::string::npos);
  CHECK(refused({.rule = ChoiceRule::capped, .n_global = 9, .cap = 2}).find("at most 8; hint: raise --cap") !=
        std::string::npos);
}
