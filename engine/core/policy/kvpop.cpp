// KVpop (eq. 4-5): sinks, window, and top_k long-range places for which every token that leaves the window competes by
// its decayed score; the loser is overwritten, so a head never holds more than its budget.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {kBudgetParameter, kSinksParameter,    kWindowParameter,   kDecayParameter,
                                         kStrideParameter, kCapacityParameter, kIntervalParameter, kAllocationParameter,
                                         kBetaParameter,   kSafeguardParameter};
constexpr std::string_view kGates[] = {"kvpop_mlstm", "kvpop_mlp", "kvpop_linear"};

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  return top_k_plan(spec, geometry, ScoreSource::gate);
}

}  // namespace

Policy kvpop_policy() {
  return {.info = {.name = "kvpop",
                   .title = "KVpop running top-k",
                   .definition = "The token that leaves the window competes for top_k = budget - sinks - window slots. "
                                 "At query q the token with the lowest score + floor((q - t) / stride) log(decay) is "
                                 "evicted (KVpop eq. 4, 5 and 20). Scorer: linear, MLP or mLSTM, delayed or immediate.",
                   .parameters = kParameters,
                   .has_budget = true,
                   .needs_scorer = true,
                   .gates = kGates},
          .geometry = budget_geometry,
          .plan = plan,
          .uses = uses_top_k};
}

}  // namespace kvscope
