#pragma once
// How long the attention of a prompt takes. Includes LibTorch.

#include <c10/core/Event.h>

#include <chrono>
#include <utility>
#include <vector>

namespace kvscope::engine {

/// Seconds between begin() and end(), summed: on a device by events on its stream, so that nothing waits; on the CPU by the clock.
class AttentionClock {
 public:
  explicit AttentionClock(c10::Device device) : device_(device) {}
  void begin();
  void end();
  /// Waits for the last event. Nothing was measured: NaN.
  double seconds() const;

 private:
  using Moment = std::chrono::steady_clock::time_point;
  c10::Device device_;
  Moment began_;
  double seconds_ = 0;
  bool measured_ = false;
  std::vector<std::pair<c10::Event, c10::Event>> spans_;
};

}  // namespace kvscope::engine
