#include "engine/core/study/measure/power_law.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "engine/core/support/error.h"

namespace kvscope {
namespace {

constexpr double kLeastExponent = 1e-3, kMostExponent = 4;
constexpr int kGrid = 200, kHalvings = 60;

/// Compute in units of its geometric mean: its powers are then near 1, whatever the exponent.
class Residuals {
 public:
  Residuals(std::span<const double> compute, std::span<const double> loss) : compute_(compute), loss_(loss) {
    for (const double c : compute) middle_ += std::log(c);
    middle_ = std::exp(middle_ / static_cast<double>(compute.size()));
    for (const double l : loss) mean_ += l / static_cast<double>(loss.size());
  }

  /// The best floor and scale with this exponent, by linear least squares.
  PowerLaw best(double exponent) const {
    double u_mean = 0, uu = 0, ul = 0;
    for (const double c : compute_) u_mean += power(c, exponent) / static_cast<double>(compute_.size());
    for (std::size_t i = 0; i < compute_.size(); ++i) {
      const double u = power(compute_[i], exponent) - u_mean;
      uu += u * u, ul += u * (loss_[i] - mean_);
    }
    const double scale = ul / uu;
    return {mean_ - scale * u_mean, scale * std::pow(middle_, exponent), exponent, 0};
  }
  double squares(const PowerLaw& law) const {
    double sum = 0;
    for (std::size_t i = 0; i < compute_.size(); ++i) sum += std::pow(loss_[i] - law.at(compute_[i]), 2);
    return sum;
  }
  double squares_of_mean() const {
    double sum = 0;
    for (const double l : loss_) sum += std::pow(l - mean_, 2);
    return sum;
  }

 private:
  double power(double c, double exponent) const { return std::pow(c / middle_, -exponent); }

  std::span<const double> compute_, loss_;
  double middle_ = 0, mean_ = 0;
};

void check(std::span<const double> compute, std::span<const double> loss) {
  for (const double c : compute) {
    if (!(c > 0) || !std::isfinite(c))
      throw Error({ExitCode::bad_input, "", "power law", "a compute of " + std::to_string(c), "a positive number", ""});
  }
  const std::size_t n = std::set<double>(compute.begin(), compute.end()).size();
  if (n < kLeastFitted || loss.size() != compute.size())
    throw Error({ExitCode::bad_input, "", "power law", std::to_string(n) + " amounts of compute to fit",
                 "at least " + std::to_string(kLeastFitted), ""});
}

}  // namespace

double PowerLaw::at(double compute) const { return floor + scale * std::pow(compute, -exponent); }

PowerLaw fit_power_law(std::span<const double> compute, std::span<const double> loss) {
  check(compute, loss);
  const Residuals residuals(compute, loss);
  const double step = std::log(kMostExponent / kLeastExponent) / kGrid;
  const auto exponent_at = [&](double i) { return kLeastExponent * std::exp(step * i); };
  const auto squares_at = [&](double i) { return residuals.squares(residuals.best(exponent_at(i))); };
  int at = 0;
  for (int i = 1; i <= kGrid; ++i) {
    if (squares_at(i) < squares_at(at)) at = i;
  }
  // Between the neighbours of the grid's best there is one minimum.
  double lo = std::max(0, at - 1), hi = std::min(kGrid, at + 1);
  for (int i = 0; i < kHalvings; ++i) {
    const double a = lo + (hi - lo) / 3, b = hi - (hi - lo) / 3;
    squares_at(a) < squares_at(b) ? hi = b : lo = a;
  }
  PowerLaw law = residuals.best(exponent_at((lo + hi) / 2));
  law.r2 = 1 - residuals.squares(law) / residuals.squares_of_mean();
  return law;
}

}  // namespace kvscope
