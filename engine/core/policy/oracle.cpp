// The future-attention oracle at work: it has read the text once, densely, and keeps what the rest of it will look at.
#include "engine/core/policy/policy_shared.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

constexpr std::string_view kMasses[] = {"mean", "sum", "rms", "max"};
constexpr std::string_view kWeights[] = {"mass", "value", "output"};

constexpr std::string_view kCapacities[] = {"head", "pooled"};

constexpr ParameterInfo kParameters[] = {
    kBudgetParameter,
    kSinksParameter,
    kWindowParameter,
    {"decay", ParameterKind::real, "", 1, 1e-6, 1,
     "gamma: a token loses -log(gamma) of its target for every stride of age; 1 is none."},
    kStrideParameter,
    {"mass", ParameterKind::choice, "", 0, 0, 3,
     "How the attention from later queries becomes one number: mean (KVpop eq. 2), sum, root mean square, maximum.",
     kMasses},
    {"weight", ParameterKind::choice, "", 0, 0, 2, "What it is multiplied by: nothing, |v|, or |W_o v|.", kWeights},
    {"capacity", ParameterKind::choice, "", 0, 0, 1,
     "Whose the budget is: each head's own. One for all heads is no policy's here, but a yardstick: run and what-if take "
     "--oracle capacity=pooled.",
     kCapacities}};

/// Heads decide each by itself, so that none can have what another one leaves.
RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  if (spec.count("capacity") != 0) {
    throw Error(
        {.code = ExitCode::usage,
         .file = "policy oracle",
         .where = "capacity",
         .found = "pooled",
         .expected = "head: as a policy the oracle gives each head its own budget",
         .hint = "--oracle capacity=pooled of kvscope run, capture and what-if holds any policy against a pooled one"});
  }
  return budget_geometry(spec, n_positions);
}

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry&) {
  return {.source = ScoreSource::future,
          .oracle_mass = spec.count("mass"),
          .oracle_weight = spec.count("weight"),
          .admission = Admission::top_k};
}

}  // namespace

Policy oracle_policy() {
  return {.info = {.name = "oracle",
                   .title = "Future-attention oracle",
                   .definition = "The contest of kvpop with log(1e-6 + the attention that a token gets from later "
                                 "queries) as its score, in two passes: the text goes by densely first, with the dense "
                                 "answer where there is one. Not an upper bound: greedy by one number a token.",
                   .parameters = kParameters,
                   .has_budget = true},
          .geometry = geometry,
          .plan = plan};
}

}  // namespace kvscope
