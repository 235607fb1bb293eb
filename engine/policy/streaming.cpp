// StreamingLLM (Xiao et al., 2024): sinks and a sliding window; a token that leaves the window is gone.
#include <algorithm>

#include "engine/policy/retention_policy.h"

namespace kvscope::engine {
namespace {

class Streaming final : public RetentionPolicy {
 public:
  using RetentionPolicy::RetentionPolicy;
  kernels::RetainRule rule() const override { return kernels::RetainRule::window; }
  int max_slots() const override { return std::min(geometry_.n_sink + geometry_.window, n_positions_); }
  bool has_fixed_budget() const override { return true; }
};

}  // namespace

std::unique_ptr<RetentionPolicy> make_streaming(const PolicySpec& spec, int n_positions) {
  return std::make_unique<Streaming>(spec, n_positions);
}

}  // namespace kvscope::engine
