#include "engine/core/study/table/pareto.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "engine/core/support/random.h"

namespace kvscope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The definition, word for word.
bool is_on_front(const std::vector<double>& x, const std::vector<double>& y, std::size_t i, double sign_x,
                 double sign_y) {
  if (std::isnan(x[i]) || std::isnan(y[i])) return false;
  for (std::size_t j = 0; j < x.size(); ++j) {
    if (std::isnan(x[j]) || std::isnan(y[j])) continue;
    const double dx = sign_x * (x[j] - x[i]), dy = sign_y * (y[j] - y[i]);
    if (dx <= 0 && dy <= 0 && (dx < 0 || dy < 0)) return false;
  }
  return true;
}

TEST_CASE("pareto: the front is that of the definition on 400 random clouds with ties and gaps", "[study]") {
  Random random(16);
  for (int round = 0; round < 400; ++round) {
    std::vector<double> x, y;
    const auto n = random.below(24);
    for (std::uint64_t i = 0; i < n; ++i) {
      x.push_back(random.below(12) == 0 ? kNaN : static_cast<double>(random.below(8)));  // few values: many ties
      y.push_back(random.below(12) == 0 ? kNaN : static_cast<double>(random.below(8)));
    }
    for (const Aim aim_x : {Aim::smaller, Aim::larger}) {
      for (const Aim aim_y : {Aim::smaller, Aim::larger}) {
        const std::vector<bool> front = pareto_front(x, y, aim_x, aim_y);
        REQUIRE(front.size() == x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
          CAPTURE(round, i);
          REQUIRE(front[i] == is_on_front(x, y, i, aim_x == Aim::smaller ? 1 : -1, aim_y == Aim::smaller ? 1 : -1));
        }
      }
    }
  }
}

/// Twice the area of the triangle that a point makes with the chord's ends, over the scaled chord's length.
double distance_below(double ax, double ay, double bx, double by, double px, double py) {
  return ((bx - ax) * (ay - py) - (ax - px) * (by - ay)) / std::hypot(bx - ax, by - ay);
}

TEST_CASE("pareto: the knee is the front's point farthest below the chord, in axes scaled to the front", "[study]") {
  Random random(17);
  int n_found = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<double> x, y;
    for (std::uint64_t i = 0; i < 3 + random.below(12); ++i) {
      x.push_back(1000 * random.uniform());
      y.push_back(3 + 0.1 * random.uniform());
    }
    std::size_t first = x.size(), last = x.size();
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!is_on_front(x, y, i, 1, 1)) continue;
      if (first == x.size() || x[i] < x[first]) first = i;
      if (last == x.size() || x[i] > x[last]) last = i;
    }
    std::optional<std::size_t> expected;
    double farthest = 1e-9;
    for (std::size_t i = 0; i < x.size() && first != last; ++i) {
      if (!is_on_front(x, y, i, 1, 1)) continue;
      const double px = (x[i] - x[first]) / (x[last] - x[first]), py = (y[i] - y[last]) / (y[first] - y[last]);
      const double distance = distance_below(0, 1, 1, 0, px, py);
      if (distance <= farthest) continue;
      farthest = distance;
      expected = i;
    }
    CAPTURE(round);
    REQUIRE(pareto_knee(x, y, Aim::smaller, Aim::smaller) == expected);
    n_found += expected.has_value();
    for (double& value : y) value = -value;
    REQUIRE(pareto_knee(x, y, Aim::smaller, Aim::larger) == expected);
  }
  CHECK(n_found > 100);
}

TEST_CASE("pareto: a knee by hand, and fronts that have none", "[study]") {
  const std::vector<double> cost = {0.1, 0.2, 0.5, 1.0}, loss = {4, 2.2, 2.1, 2};
  CHECK(pareto_knee(cost, loss, Aim::smaller, Aim::smaller) == 1);
  CHECK_FALSE(pareto_knee(std::vector{0.1, 1.0}, std::vector{3.0, 2.0}, Aim::smaller, Aim::smaller));
  CHECK_FALSE(
      pareto_knee(std::vector{0.0, 0.5, 1.0}, std::vector{2.0, 1.0, 0.0}, Aim::smaller, Aim::smaller));  // straight
  CHECK_FALSE(
      pareto_knee(std::vector{0.0, 0.9, 1.0}, std::vector{2.0, 1.9, 0.0}, Aim::smaller, Aim::smaller));  // outwards
  CHECK_FALSE(pareto_knee({}, {}, Aim::smaller, Aim::smaller));
}

TEST_CASE("pareto: between two neighbours a value is on their line, beyond the points it is not known", "[study]") {
  const std::vector<double> cost = {0.5, 0.1, kNaN, 0.25, 0.1}, value = {2, 6, 9, 4, 8};
  CHECK(value_at_cost(cost, value, 0.25) == 4);
  CHECK(value_at_cost(cost, value, 0.1) == 7);  // the mean of the two there
  CHECK(value_at_cost(cost, value, 0.4) == Approx(4 + (2 - 4) * 0.15 / 0.25));
  CHECK(value_at_cost(cost, value, 0.175) == Approx(5.5));
  CHECK(std::isnan(value_at_cost(cost, value, 0.09)));
  CHECK(std::isnan(value_at_cost(cost, value, 0.51)));
  CHECK(std::isnan(value_at_cost(cost, value, kNaN)));
  CHECK(std::isnan(value_at_cost({}, {}, 0.5)));
}

}  // namespace
}  // namespace kvscope
