#include <cmath>
#include <string>

#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"budget", ParameterKind::tokens, "tokens", 512, 1, kMaxTokens,
     "Tokens a head may hold: sinks + window + top_k. Also as keep=25% or compression=4x of the run's positions."},
    kSinksParameter,
    kWindowParameter,
    {"decay", ParameterKind::real, "", 1, 1e-6, 1,
     "gamma: a token loses -log(gamma) of score for every stride of age; 1 is none."},
    {"stride", ParameterKind::count, "tokens", 1, 1, kMaxTokens,
     "n of eq. 5: a token loses log(decay) once every n tokens of age."}};

RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  RetentionGeometry geometry{.n_sink = static_cast<int>(spec.value("sinks")),
                             .window = static_cast<int>(spec.value("window")),
                             .log_gamma = std::log(spec.value("decay")),
                             .decay_stride = static_cast<int>(spec.value("stride"))};
  const int budget = spec.budget_tokens(n_positions);
  geometry.top_k = budget - geometry.n_sink - geometry.window;
  if (geometry.top_k < 0) {
    const std::string fixed =
        "sinks " + std::to_string(geometry.n_sink) + " + window " + std::to_string(geometry.window);
    throw Error(
        {.code = ExitCode::usage,
         .file = "policy kvpop",
         .where = "budget",
         .found = "a budget of " + describe_budget(budget, n_positions),
         .expected = "at least " + fixed + " = " + std::to_string(geometry.n_sink + geometry.window) + " tokens",
         .hint = "raise the budget, or make the window smaller"});
  }
  return geometry;
}

std::unique_ptr<LifetimeRule> rule(const PolicySpec&, const RetentionGeometry& geometry) {
  return make_running_top_k_rule(geometry);
}

}  // namespace

const Policy& kvpop_policy() {
  static const Policy policy{
      .info = {.name = "kvpop",
               .title = "KVpop running top-k",
               .definition =
                   "The token that leaves the window competes for top_k = budget - sinks - window places; at "
                   "query q the one with the least score + floor((q - t) / stride) log(decay) leaves for good "
                   "(KVpop eq. 4, 5 and 20).",
               .parameters = kParameters,
               .has_budget = true,
               .needs_scorer = true},
      .geometry = geometry,
      .rule = rule};
  return policy;
}

}  // namespace kvscope
