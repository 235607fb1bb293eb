// The chance level of everything else: random scores under a budget, or admission with a fixed probability
// ("StreamingLLM + x % random").
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {kBudgetParameter,
                                         kSinksParameter,
                                         kWindowParameter,
                                         {"admit", ParameterKind::real, "", 0, 0, 1,
                                          "Probability that a token is admitted. 0: tokens compete for the budget."},
                                         kSeedParameter,
                                         kCapacityParameter,
                                         kIntervalParameter};

RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  return spec.value("admit") > 0 ? open_geometry(spec, n_positions) : budget_geometry(spec, n_positions);
}

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  const double admit = spec.value("admit");
  RetentionPlan plan = admit > 0 ? RetentionPlan{.source = ScoreSource::random,
                                                 .admission = Admission::threshold,
                                                 .threshold = static_cast<float>(1 - admit)}
                                 : top_k_plan(spec, geometry, ScoreSource::random);
  plan.seed = static_cast<std::uint64_t>(spec.value("seed"));
  return plan;
}

/// Who is admitted by chance competes for nothing.
bool uses(const PolicySpec& spec, std::string_view parameter) {
  const bool competes = spec.value("admit") == 0;
  return (competes || (parameter != "budget" && parameter != "capacity" && parameter != "interval")) &&
         uses_top_k(spec, parameter);
}

std::vector<std::string> sweep(const SweepPoint& at) { return {"random:keep=" + at.percent + at.window()}; }

}  // namespace

Policy random_policy() {
  return {
      .info = {.name = "random",
               .title = "Random retention",
               .definition = "Scores are uniform in [0, 1), drawn from seed, layer, head and position. admit=0: they "
                             "compete for the budget as in kvpop. admit=x: a token that leaves the window is kept "
                             "with probability x, and there is no budget.",
               .parameters = kParameters,
               .has_budget = true},
      .geometry = geometry,
      .plan = plan,
      .uses = uses,
      .sweep = sweep};
}

}  // namespace kvscope
