// Admission by a score: a token that leaves the window stays for good if its score is at least the threshold. Heads
// differ in how much they keep.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr auto kParameters = gated_parameters(
    {"threshold", ParameterKind::real, "", 0, -1e6, 1e6, "A token stays if its score is at least this."},
    kSinksParameter, kWindowParameter);

}  // namespace

Policy threshold_policy() {
  return {.info = {.name = "threshold",
                   .title = "Score threshold",
                   .definition =
                       "The score of the first loaded gate decides once, when a token leaves the window: evict_at[t] = "
                       "NEVER if t < sinks or score >= threshold, otherwise t + window. The cache grows with the text.",
                   .parameters = kParameters,
                   .needs_scorer = true},
          .geometry = open_geometry,
          .plan = gated_plan,
          .explain = explain_gated,
          .log = log_gated,
          .uses = uses_gated};
}

}  // namespace kvscope
