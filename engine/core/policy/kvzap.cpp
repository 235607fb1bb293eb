// KVzap with a threshold: the predicted log importance of a token, from the attention input, decides when it leaves the
// window.
#include "engine/core/policy/policy.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"threshold", ParameterKind::real, "", -4, -100, 100,
     "A token stays if its predicted log importance is at least this; about -3 to -6 for Qwen3-8B."},
    {"sinks", ParameterKind::tokens, "tokens", 0, 0, kMaxTokens, kSinksParameter.definition},
    {"window", ParameterKind::tokens, "tokens", 128, 1, kMaxTokens, kWindowParameter.definition},
    kReadParameter,
    kPoolParameter,
    kDropParameter,
    kObserveParameter};
constexpr std::string_view kGates[] = {"kvzap_linear", "kvzap_mlp"};

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  return {.source = ScoreSource::gate,
          .admission = Admission::threshold,
          .threshold = static_cast<float>(spec.value("threshold")),
          .compression = pool_of(spec, geometry),
          .selection = selection_of(spec)};
}

}  // namespace

const Policy& kvzap_policy() {
  static const Policy policy{
      .info = {.name = "kvzap",
               .title = "KVzap",
               .definition = "score = predicted log of the KVzip+ importance, linear or MLP of the attention input; "
                             "evict_at[t] = NEVER if score >= threshold, otherwise t + window.",
               .parameters = kParameters,
               .has_budget = false,
               .needs_scorer = true,
               .gates = kGates},
      .geometry = open_geometry,
      .plan = plan};
  return policy;
}

}  // namespace kvscope
