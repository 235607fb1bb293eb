// KVpop's retention with whatever gate is loaded: any scorer under any budget.
#include "engine/core/policy/policy.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {kBudgetParameter, kSinksParameter, kWindowParameter, kDecayParameter,
                                         kStrideParameter};

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  (void)spec, (void)geometry;
  return {.source = ScoreSource::gate, .admission = Admission::top_k};
}

}  // namespace

const Policy& top_k_policy() {
  static const Policy policy{.info = {.name = "top-k",
                                      .title = "Running top-k of any score",
                                      .definition = "The contest of kvpop with the score of the first loaded gate, "
                                                    "whatever its kind: any scorer under a fixed budget.",
                                      .parameters = kParameters,
                                      .has_budget = true,
                                      .needs_scorer = true},
                             .geometry = budget_geometry,
                             .plan = plan};
  return policy;
}

}  // namespace kvscope
