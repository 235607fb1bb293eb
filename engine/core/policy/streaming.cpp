// StreamingLLM (Xiao et al., 2024): sinks and a sliding window; a token that leaves the window is gone. Without sinks
// it is local attention.
#include <algorithm>

#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {kSinksParameter, kWindowParameter};
RetentionGeometry geometry(const PolicySpec& spec, int) {
  return {.n_sink = spec.count("sinks"), .window = spec.count("window"), .top_k = 0};
}

RetentionPlan plan(const PolicySpec&, const RetentionGeometry&) { return {.admission = Admission::drop}; }

int budget_tokens(const PolicySpec& spec) { return spec.count("sinks") + spec.count("window"); }

std::vector<std::string> sweep(const SweepPoint& at) {
  return {"streaming:sinks=4,window=" + std::to_string(std::max(1, at.budget - 4))};
}

}  // namespace

Policy streaming_policy() {
  return {.info = {.name = "streaming",
                   .title = "StreamingLLM",
                   .definition = "Keeps sinks and window only: evict_at[t] = NEVER if t < sinks, otherwise t + "
                                 "window. Its budget is sinks + window. sinks=0 is local attention.",
                   .parameters = kParameters},
          .geometry = geometry,
          .plan = plan,
          .budget_tokens = budget_tokens,
          .sweep = sweep};
}

}  // namespace kvscope
