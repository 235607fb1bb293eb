// KVzap with a threshold: the predicted log importance of a token, from the attention input, decides when it leaves the
// window.
#include <algorithm>
#include <array>

#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr auto kGated =
    gated_parameters({"threshold", ParameterKind::real, "", -4, -100, 100,
                      "A token stays if its predicted log importance is at least this; about -3 to -6 for Qwen3-8B."},
                     sinks_parameter(0), window_parameter(128));
constexpr ParameterInfo kPrefill(
    "prefill", ParameterKind::choice, "", 1, 0, 1,
    "sparse: the prompt's queries see only what the policy keeps. dense, as in kvpress: they "
    "see everything, and eviction starts after the prompt.",
    kPrefillChoices);
constexpr auto kParameters = [] {
  std::array<ParameterInfo, kGated.size() + 1> all;
  std::ranges::copy(kGated, all.begin());
  all.back() = kPrefill;
  return all;
}();
constexpr std::string_view kGates[] = {"kvzap_linear", "kvzap_mlp"};

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  RetentionPlan plan = gated_plan(spec, geometry);
  plan.dense_prefill = spec.value("prefill") == 0;
  return plan;
}

DecisionLog log(const LogQuestion& question) {
  DecisionLog log = log_gated(question);
  log.measure = "s", log.threshold = "threshold";
  return log;
}

}  // namespace

Policy kvzap_policy() {
  return {
      .info = {.name = "kvzap",
               .title = "KVzap",
               .definition = "score = predicted log of the KVzip+ importance, linear or MLP of the attention input; "
                             "evict_at[t] = NEVER if score >= threshold, otherwise t + window.",
               .parameters = kParameters,
               .needs_scorer = true,
               .gates = kGates},
      .geometry = open_geometry,
      .plan = plan,
      .explain = explain_gated,
      .log = log,
      .uses = uses_gated};
}

}  // namespace kvscope
