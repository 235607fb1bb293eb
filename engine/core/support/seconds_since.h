#pragma once
// Time that has passed, for rates, progress and timings.

#include <chrono>

namespace kvscope {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace kvscope
