// KVpop (eq. 4-5): sinks, window, and top_k long-range slots for which every token that leaves the window competes by
// its decayed score; the loser's slot is overwritten, so a head never uses more than its budget.
#include <algorithm>

#include "engine/policy/retention_policy.h"

namespace kvscope::engine {
namespace {

class Kvpop final : public RetentionPolicy {
 public:
  using RetentionPolicy::RetentionPolicy;
  bool needs_scorer() const override { return true; }
  kernels::RetainRule rule() const override { return kernels::RetainRule::top_k; }
  int max_slots() const override { return std::min(geometry_.budget(), n_positions_); }
  bool has_fixed_budget() const override { return true; }
};

}  // namespace

std::unique_ptr<RetentionPolicy> make_kvpop(const PolicySpec& spec, int n_positions) {
  return std::make_unique<Kvpop>(spec, n_positions);
}

}  // namespace kvscope::engine
