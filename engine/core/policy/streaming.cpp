#include "engine/core/policy/policy.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {kSinksParameter, kWindowParameter};

RetentionGeometry geometry(const PolicySpec& spec, int) {
  return {
      .n_sink = static_cast<int>(spec.value("sinks")), .window = static_cast<int>(spec.value("window")), .top_k = 0};
}

std::unique_ptr<LifetimeRule> rule(const PolicySpec&, const RetentionGeometry&) { return make_streaming_rule(); }

}  // namespace

const Policy& streaming_policy() {
  static const Policy policy{
      .info = {.name = "streaming",
               .title = "StreamingLLM",
               .definition =
                   "Sinks and window only: evict_at[t] = NEVER if t < sinks, otherwise t + window. Its budget "
                   "is sinks + window.",
               .parameters = kParameters,
               .has_budget = false,
               .needs_scorer = false},
      .geometry = geometry,
      .rule = rule};
  return policy;
}

}  // namespace kvscope
