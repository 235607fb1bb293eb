#include "engine/core/policy/policy.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {kSinksParameter, kWindowParameter};

RetentionGeometry geometry(const PolicySpec& spec, int) {
  return {
      .n_sink = static_cast<int>(spec.value("sinks")), .window = static_cast<int>(spec.value("window")), .top_k = 0};
}

void lifetimes(const PolicySpec&, const RetentionGeometry& geometry, std::span<const float>, std::int32_t n_queries,
               std::span<std::int32_t> evict_at, std::vector<Contest>*) {
  streaming_lifetimes(geometry.n_sink, geometry.window, n_queries, evict_at);
}

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
      .lifetimes = lifetimes};
  return policy;
}

}  // namespace kvscope
