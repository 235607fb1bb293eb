// KVpop's retention with whatever gate is loaded: any scorer under any budget.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {kBudgetParameter, kSinksParameter,    kWindowParameter,   kDecayParameter,
                                         kStrideParameter, kCapacityParameter, kIntervalParameter, kAllocationParameter,
                                         kBetaParameter,   kSafeguardParameter};

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  return top_k_plan(spec, geometry, ScoreSource::gate);
}

}  // namespace

Policy top_k_policy() {
  return {.info = {.name = "top-k",
                   .title = "Running top-k of any score",
                   .definition = "The contest of kvpop with the score of the first loaded gate of any kind: any "
                                 "scorer under a fixed budget.",
                   .parameters = kParameters,
                   .has_budget = true,
                   .needs_scorer = true},
          .geometry = budget_geometry,
          .plan = plan,
          .uses = uses_top_k};
}

}  // namespace kvscope
