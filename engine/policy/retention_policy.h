#pragma once
// What a policy is to the engine. One file per policy; policy_factory.cpp lists them.

#include <memory>

#include "engine/core/policy/policy.h"
#include "kernels/retain_step.h"

namespace kvscope::engine {

class KvpopScorer;

/// Who stays, for the chunks of a prompt and for one decode step. Both must decide alike: prefilling n tokens leaves
/// what n steps leave (tests/engine/prefill_test.cpp holds every policy to it).
class RetentionPolicy {
 public:
  /// n_positions: prompt + new tokens at most, to which budgets given as a share refer.
  RetentionPolicy(const PolicySpec& spec, int n_positions)
      : spec_(spec), n_positions_(n_positions), geometry_(spec.geometry(n_positions)) {}
  virtual ~RetentionPolicy() = default;

  virtual bool needs_scorer() const { return false; }
  /// The rule that kernels::retain_step applies at each decode step.
  virtual kernels::RetainRule rule() const = 0;
  /// Of RetainRule::threshold.
  virtual float threshold() const { return 0; }
  /// Slots that a head may come to use.
  virtual int max_slots() const { return n_positions_; }
  /// True if every head comes to use max_slots(), so that pages may be taken once and memory stays as it is.
  virtual bool has_fixed_budget() const { return false; }

  /// The rule as a prompt wants it: lifetimes of one head, decision by decision, on the host.
  std::unique_ptr<LifetimeRule> lifetime_rule() const { return policy_of(spec_).rule(spec_, geometry_); }

  const PolicySpec& spec() const { return spec_; }
  const RetentionGeometry& geometry() const { return geometry_; }

 protected:
  PolicySpec spec_;
  int n_positions_;
  RetentionGeometry geometry_;
};

// One file each.
std::unique_ptr<RetentionPolicy> make_full(const PolicySpec& spec, int n_positions);
std::unique_ptr<RetentionPolicy> make_streaming(const PolicySpec& spec, int n_positions);
std::unique_ptr<RetentionPolicy> make_threshold(const PolicySpec& spec, int n_positions);
std::unique_ptr<RetentionPolicy> make_kvpop(const PolicySpec& spec, int n_positions);

/// The policy of spec.name. Throws Error (bad input) if it needs a scorer and `scorer` is null or was trained for
/// another window; (usage) if the engine has no policy of that name.
std::unique_ptr<RetentionPolicy> make_policy(const PolicySpec& spec, int n_positions, const KvpopScorer* scorer);

}  // namespace kvscope::engine
