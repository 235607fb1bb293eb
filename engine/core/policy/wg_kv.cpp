// Write-gated KV: a gate on the keys before and after rotation decides admission to the global cache when the token
// leaves the local window (lazy promotion). WG-KV sections 2-4; the comparison is that of the released code, > and not
// >= as the paper prints it.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr auto kParameters = gated_parameters(
    {"threshold", ParameterKind::real, "", 0.1, 0, 1, "tau: a token is admitted if its gate is above this."},
    sinks_parameter(0), window_parameter(256), 1);
constexpr std::string_view kGates[] = {"wg_kv"};

DecisionLog log(const LogQuestion& question) {
  DecisionLog log = log_gated(question);
  log.measure = "g", log.threshold = "tau";
  return log;
}

}  // namespace

Policy wg_kv_policy() {
  return {.info = {.name = "wg-kv",
                   .title = "WG-KV",
                   .definition = "gate g_t = sigmoid(W2 gelu(W1 x + b1) + b2), x = [RMSNorm(k before RoPE) ; "
                                 "RMSNorm(k after RoPE)]; evict_at[t] = NEVER if g_t > threshold, otherwise t + "
                                 "window: > as in the released code; the paper has >= (strict=0). pool and read are "
                                 "from its App. K and section 5.4.",
                   .parameters = kParameters,
                   .needs_scorer = true,
                   .gates = kGates},
          .geometry = open_geometry,
          .plan = gated_plan,
          .explain = explain_gated,
          .log = log,
          .uses = uses_gated};
}

}  // namespace kvscope
