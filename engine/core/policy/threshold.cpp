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

void lifetimes(const PolicySpec& spec, const RetentionGeometry& geometry, std::span<const float> scores,
               std::int32_t n_queries, std::span<std::int32_t> evict_at, std::vector<Contest>*) {
  threshold_lifetimes(scores, static_cast<float>(spec.value("threshold")), geometry.n_sink, geometry.window, n_queries,
                      evict_at);
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
      .lifetimes = lifetimes};
  return policy;
}

}  // namespace kvscope
