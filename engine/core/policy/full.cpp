#include <algorithm>

#include "engine/core/policy/policy.h"

namespace kvscope {
namespace {

RetentionGeometry geometry(const PolicySpec&, int n_positions) {
  return {.n_sink = 0, .window = kDefaultWindow, .top_k = std::max(0, n_positions - kDefaultWindow)};
}

std::unique_ptr<LifetimeRule> rule(const PolicySpec&, const RetentionGeometry&) { return make_keep_all_rule(); }

}  // namespace

const Policy& full_policy() {
  static const Policy policy{
      .info = {.name = "full",
               .title = "Full cache",
               .definition = "Nothing is ever evicted: evict_at = NEVER for every token. The dense reference. Its "
                             "metrics take a window of 64 tokens.",
               .parameters = {},
               .has_budget = false,
               .needs_scorer = false},
      .geometry = geometry,
      .rule = rule};
  return policy;
}

}  // namespace kvscope
