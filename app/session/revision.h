#pragma once
#include <cstdint>

namespace kvscope::app {

/// Rises with every change that is worth drawing. The parts of a session share one.
class Revision {
 public:
  void rise() { ++value_; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 1;
};

}  // namespace kvscope::app
