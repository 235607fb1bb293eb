#include "engine/core/study/measure/student_t.h"

#include <cmath>
#include <iterator>
#include <limits>

namespace kvscope {

double student_t_975(int degrees_of_freedom) {
  // From a table for the first six, where Cornish-Fisher's expansion in 1 / nu (Abramowitz, Stegun 26.7.5) is still off.
  constexpr double kFew[] = {12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691};
  if (degrees_of_freedom < 1) return std::numeric_limits<double>::quiet_NaN();
  if (degrees_of_freedom <= static_cast<int>(std::size(kFew))) return kFew[degrees_of_freedom - 1];
  const double x = 1.959963985, nu = degrees_of_freedom;
  const double g1 = (std::pow(x, 3) + x) / 4, g2 = (5 * std::pow(x, 5) + 16 * std::pow(x, 3) + 3 * x) / 96;
  const double g3 = (3 * std::pow(x, 7) + 19 * std::pow(x, 5) + 17 * std::pow(x, 3) - 15 * x) / 384;
  const double g4 =
      (79 * std::pow(x, 9) + 776 * std::pow(x, 7) + 1482 * std::pow(x, 5) - 1920 * std::pow(x, 3) - 945 * x) / 92160;
  return x + g1 / nu + g2 / std::pow(nu, 2) + g3 / std::pow(nu, 3) + g4 / std::pow(nu, 4);
}

}  // namespace kvscope
