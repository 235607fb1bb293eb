#pragma once
// The law by which a loss falls with the compute of a training: SP-KV eq. 9.

#include <span>

namespace kvscope {

/// L(C) = floor + scale * C^-exponent
struct PowerLaw {
  double floor = 0, scale = 0, exponent = 0;
  double r2 = 0;  // 1 - squared residuals / squared distances from the mean, over the fitted points
  double at(double compute) const;
};

inline constexpr std::size_t kLeastFitted = 4;  // of points: with three numbers to fit, fewer would always lie on it

/// Least squares of `loss` over `compute`, both of one length. For each exponent the other two have a closed form, so that one
/// number is searched for, from 0.001 to 4. Throws Error (bad input): fewer than kLeastFitted values of compute, or one that is
/// not positive and finite.
PowerLaw fit_power_law(std::span<const double> compute, std::span<const double> loss);

}  // namespace kvscope
