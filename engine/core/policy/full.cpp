#include <algorithm>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/policy/policy.h"

namespace kvscope {
namespace {

RetentionGeometry geometry(const PolicySpec&, int n_positions) {
  return {.n_sink = 0, .window = kDefaultWindow, .top_k = std::max(0, n_positions - kDefaultWindow)};
}

void lifetimes(const PolicySpec&, const RetentionGeometry& geometry, std::span<const float>, std::int32_t n_queries,
               std::span<std::int32_t> evict_at, std::vector<Contest>*) {
  const std::size_t n_decided = std::min<std::size_t>(evict_at.size(), std::max(0, n_queries - geometry.window));
  std::fill(evict_at.begin(), evict_at.begin() + n_decided, kNever);
  std::fill(evict_at.begin() + n_decided, evict_at.end(), kUndecided);
}

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
      .lifetimes = lifetimes};
  return policy;
}

}  // namespace kvscope
