#include <algorithm>

#include "engine/core/policy/policy.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"threshold", ParameterKind::real, "", 0, -1e6, 1e6, "A token stays if its score is at least this."},
    kSinksParameter,
    kWindowParameter};

/// There is no budget, so everything may stay.
RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  const int n_sink = static_cast<int>(spec.value("sinks"));
  const int window = static_cast<int>(spec.value("window"));
  return {.n_sink = n_sink, .window = window, .top_k = std::max(0, n_positions - n_sink - window)};
}

std::unique_ptr<LifetimeRule> rule(const PolicySpec& spec, const RetentionGeometry&) {
  return make_threshold_rule(static_cast<float>(spec.value("threshold")));
}

}  // namespace

const Policy& threshold_policy() {
  static const Policy policy{
      .info = {.name = "threshold",
               .title = "Score threshold",
               .definition =
                   "Admission by the scorer's score, decided once on leaving the window: evict_at[t] = NEVER if "
                   "t < sinks or score >= threshold, otherwise t + window. The cache grows with the text.",
               .parameters = kParameters,
               .has_budget = false,
               .needs_scorer = true},
      .geometry = geometry,
      .rule = rule};
  return policy;
}

}  // namespace kvscope
