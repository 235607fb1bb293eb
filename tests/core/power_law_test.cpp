#include "engine/core/study/measure/power_law.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "engine/core/support/random.h"
#include "tests/support/expect_error.h"

namespace kvscope {
namespace {

/// SP-KV, Table 7: compute and NLL of the models with full attention up to 2.25 B parameters.
const std::vector<double> kFlops = {3.9e18, 7.7e18, 1.4e19, 3.4e19, 6.8e19, 1.5e20,
                                    3.4e20, 6.6e20, 1.4e21, 3.1e21, 6.0e21};
const std::vector<double> kNll = {3.17, 3.05, 2.95, 2.79, 2.69, 2.57, 2.48, 2.39, 2.30, 2.21, 2.14};

double squares(const PowerLaw& law) {
  double sum = 0;
  for (std::size_t i = 0; i < kFlops.size(); ++i) sum += std::pow(kNll[i] - law.at(kFlops[i]), 2);
  return sum;
}

TEST_CASE("power law: losses that a law gave give that law back", "[study]") {
  for (const double exponent : {0.03, 0.15, 0.5, 1.5}) {
    CAPTURE(exponent);
    const PowerLaw law{1.3, 2.5 * std::pow(1e20, exponent), exponent, 0};
    std::vector<double> loss;
    for (const double c : kFlops) loss.push_back(law.at(c));
    const PowerLaw found = fit_power_law(kFlops, loss);
    CHECK(found.floor == Approx(1.3).margin(1e-5));
    CHECK(found.exponent == Approx(exponent).epsilon(1e-4));
    CHECK(found.at(1e23) == Approx(law.at(1e23)).epsilon(1e-6));
    CHECK(found.r2 == Approx(1));
  }
}

TEST_CASE("power law: of SP-KV's Table 7 the fit explains 0.999 and foresees the models of 7 billion", "[study]") {
  const PowerLaw law = fit_power_law(kFlops, kNll);
  CHECK(law.r2 > 0.999);  // as the paper says
  CHECK(law.at(5.7e22) == Approx(1.95).margin(0.02));
  CHECK(law.at(5.6e22) == Approx(1.95).margin(0.02));
}

TEST_CASE("power law: no law near the fit is closer to the losses", "[study]") {
  const PowerLaw law = fit_power_law(kFlops, kNll);
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    PowerLaw other = law;
    const auto near = [&] { return 1 + 0.05 * (random.uniform() - 0.5); };
    other.floor *= near(), other.scale *= near(), other.exponent *= near();
    CHECK(squares(other) >= squares(law) * (1 - 1e-9));
  }
}

TEST_CASE("power law: three points, or a compute of zero, are refused", "[study]") {
  const auto fit = [](std::vector<double> compute) {
    return fit_power_law(compute, std::vector<double>(compute.size(), 1));
  };
  CHECK_THAT(test::error_of([&] { fit({1, 2, 3}); }), Catch::Contains("3 amounts of compute"));
  CHECK_THAT(test::error_of([&] { fit({1, 2, 3, 3}); }), Catch::Contains("3 amounts of compute"));
  CHECK_THAT(test::error_of([&] { fit({0, 1, 2, 3}); }), Catch::Contains("a positive number"));
}

}  // namespace
}  // namespace kvscope
