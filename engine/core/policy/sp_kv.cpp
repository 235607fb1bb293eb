// Self-pruned KV attention: a utility predicted from the attention input when the token is created decides whether it
// is kept when it leaves the window. SP-KV section 2; sinks are an option (Table 4).
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr auto kParameters = gated_parameters(
    {"threshold", ParameterKind::real, "", 0.5, 0, 1, "tau: a token stays if its utility is at least this."},
    sinks_parameter(0), window_parameter(128));
constexpr std::string_view kGates[] = {"sp_kv"};

DecisionLog log(const LogQuestion& question) {
  DecisionLog log = log_gated(question);
  log.measure = "u", log.threshold = "tau";
  return log;
}

}  // namespace

Policy sp_kv_policy() {
  return {.info = {.name = "sp-kv",
                   .title = "SP-KV",
                   .definition =
                       "utility u_t = sigmoid(f(h_t)) of the attention input h_t (and of its neighbours if the gate "
                       "has a convolution, App. C.4), one f per KV head; evict_at[t] = NEVER if u_t >= threshold, "
                       "otherwise t + window (0 <= q - t < window is seen). The cache grows with what the predictor "
                       "keeps.",
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
