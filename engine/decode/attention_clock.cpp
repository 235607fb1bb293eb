#include "engine/decode/attention_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <limits>

#include "engine/core/support/seconds_since.h"

namespace kvscope::engine {
namespace {

c10::Event timed_event(c10::Device device) { return {device.type(), c10::EventFlag::BACKEND_DEFAULT}; }

void record(c10::Event& event, c10::Device device) {
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

}  // namespace

void AttentionClock::begin() {
  began_ = std::chrono::steady_clock::now();
  if (device_.is_cpu()) return;
  spans_.emplace_back(timed_event(device_), timed_event(device_));
  record(spans_.back().first, device_);
}

void AttentionClock::end() {
  measured_ = true;
  if (device_.is_cpu()) seconds_ += seconds_since(began_);
  if (!device_.is_cpu()) record(spans_.back().second, device_);
}

double AttentionClock::seconds() const {
  if (!measured_) return std::numeric_limits<double>::quiet_NaN();
  double sum = seconds_;
  for (const auto& [first, last] : spans_) {
    last.synchronize();
    sum += first.elapsedTime(last) / 1e3;
  }
  return sum;
}

}  // namespace kvscope::engine
