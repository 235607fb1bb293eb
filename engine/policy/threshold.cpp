// Admission by score: a token that leaves the window stays for good if its score is at least the threshold. Heads
// differ in how much they keep, so pages are taken as they are needed.
#include "engine/policy/retention_policy.h"

namespace kvscope::engine {
namespace {

class Threshold final : public RetentionPolicy {
 public:
  using RetentionPolicy::RetentionPolicy;
  bool needs_scorer() const override { return true; }
  kernels::RetainRule rule() const override { return kernels::RetainRule::threshold; }
  float threshold() const override { return static_cast<float>(spec_.value("threshold")); }
};

}  // namespace

std::unique_ptr<RetentionPolicy> make_threshold(const PolicySpec& spec, int n_positions) {
  return std::make_unique<Threshold>(spec, n_positions);
}

}  // namespace kvscope::engine
