// The future-attention oracle at work: it has read the text once, densely, and keeps what the rest of it will look at.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr std::string_view kMasses[] = {"mean", "sum", "rms", "max"};
constexpr std::string_view kWeights[] = {"mass", "value", "output"};

constexpr ParameterInfo kParameters[] = {
    kBudgetParameter,
    kSinksParameter,
    kWindowParameter,
    {"decay", ParameterKind::real, "", 1, 1e-6, 1,
     "gamma: a token loses -log(gamma) of its target for every stride of age. 1: no decay."},
    kStrideParameter,
    {"mass", ParameterKind::choice, "", 0, 0, 3,
     "How the attention from later queries becomes one number: mean (KVpop eq. 2), sum, root mean square or maximum.",
     kMasses},
    {"weight", ParameterKind::choice, "", 0, 0, 2, "What this number is multiplied by: nothing, |v| or |W_o v|.",
     kWeights},
    capacity_parameter(/*quiet=*/false),
    kIntervalParameter};

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  RetentionPlan plan = top_k_plan(spec, geometry, ScoreSource::future);
  plan.oracle_mass = spec.count("mass");
  plan.oracle_weight = spec.count("weight");
  return plan;
}

std::vector<std::string> sweep(const SweepPoint& at) {
  const std::string text = "oracle:keep=" + at.percent + at.window();
  return {text, text + ",mass=rms"};
}

}  // namespace

Policy oracle_policy() {
  return {.info = {.name = "oracle",
                   .title = "Future-attention oracle",
                   .definition = "The contest of kvpop with log(1e-6 + the attention that a token receives from "
                                 "later queries) as the score. It takes two passes: the first reads the text with a "
                                 "full cache, including the dense answer if there is one. Not an upper bound: it is "
                                 "greedy and uses one number per token.",
                   .parameters = kParameters,
                   .has_budget = true},
          .geometry = budget_geometry,
          .plan = plan,
          .uses = uses_top_k,
          .sweep = sweep};
}

}  // namespace kvscope
