// Dynamic memory sparsification (Lancucki et al., 2025): a logit that token t + 1 emits marks token t; a marked token
// is seen for `window` more tokens. The score is the negated logit, so that higher is kept here as everywhere.
#include <algorithm>

#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr auto kParameters = gated_parameters(
    {"threshold", ParameterKind::real, "", 0, -1e6, 1e6, "A token stays if its negated logit is at least this."},
    sinks_parameter(0),
    tokens_parameter("window", 512, 1,
                     "Tokens before the query that are always seen, not counting the query's own: q - t <= window, "
                     "as DMS counts."));
constexpr std::string_view kGates[] = {"dms", "dms_separate"};

/// DMS counts the tokens behind the query: its window is one less than ours.
RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  const int n_sink = spec.count("sinks"), window = spec.count("window") + 1;
  return {.n_sink = n_sink,
          .window = window,
          .top_k = std::max(0, n_positions - n_sink - window),
          .n_positions = n_positions};
}

GateDefaults of_scorer(const GateNumbers& gate) {
  GateDefaults defaults = defaults_of_scorer(gate);
  for (auto& [name, value] : defaults) value -= name == "window" ? 1 : 0;
  return defaults;
}

DecisionLog log(const LogQuestion& question) {
  DecisionLog log = log_gated(question);
  log.measure = "-logit", log.threshold = "threshold";
  return log;
}

}  // namespace

Policy dms_policy() {
  return {
      .info = {.name = "dms",
               .title = "DMS",
               .definition =
                   "logit of t = 100 x - 5, x the last channel of the first query head of the group, after its norm "
                   "and before rotation, of token t + 1; score = -logit; evict_at[t] = NEVER if score >= threshold, "
                   "otherwise t + window + 1 (q - t <= window is seen: 513 keys for 512). While a dms gate is "
                   "loaded, the channel that carries it is zero in attention under every policy.",
               .parameters = kParameters,
               .needs_scorer = true,
               .gates = kGates},
      .geometry = geometry,
      .plan = gated_plan,
      .explain = explain_gated,
      .of_scorer = of_scorer,
      .log = log,
      .uses = uses_gated};
}

}  // namespace kvscope
