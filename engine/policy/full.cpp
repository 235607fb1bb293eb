// The dense cache: nothing ever leaves. The yardstick for every other policy.
#include "engine/policy/retention_policy.h"

namespace kvscope::engine {
namespace {

class Full final : public RetentionPolicy {
 public:
  using RetentionPolicy::RetentionPolicy;
  kernels::RetainRule rule() const override { return kernels::RetainRule::keep_all; }
};

}  // namespace

std::unique_ptr<RetentionPolicy> make_full(const PolicySpec& spec, int n_positions) {
  return std::make_unique<Full>(spec, n_positions);
}

}  // namespace kvscope::engine
