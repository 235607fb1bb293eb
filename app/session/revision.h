#pragma once
#include <cstdint>

namespace kvscope::app {

/// Rises with every change that is worth drawing. The parts of a session share one.
struct Revision {
  std::uint64_t value = 1;
  void rise() { ++value; }
};

}  // namespace kvscope::app
