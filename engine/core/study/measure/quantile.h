#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace kvscope {

/// By linear interpolation between order statistics. `sorted`: ascending, not empty, no NaN; share in [0, 1].
inline double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  return std::lerp(sorted[below], sorted[std::min(below + 1, sorted.size() - 1)], place - static_cast<double>(below));
}

}  // namespace kvscope
