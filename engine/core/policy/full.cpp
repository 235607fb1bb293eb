// The dense cache: nothing ever leaves. The yardstick for every other policy.
#include <algorithm>

#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

RetentionGeometry geometry(const PolicySpec&, int n_positions) {
  return {.n_sink = 0, .window = kDefaultWindow, .top_k = std::max(0, n_positions - kDefaultWindow)};
}

std::string explain(const TokenQuestion&) { return ": a full cache evicts nothing."; }

DecisionLog log(const LogQuestion&) { return {.note = "Nothing is evicted: a full cache keeps every token."}; }

}  // namespace

Policy full_policy() {
  return {.info = {.name = "full",
                   .title = "Full cache",
                   .definition = "The dense reference. Nothing is ever evicted: evict_at = NEVER for every token. "
                                 "Its metrics use a window of 64 tokens."},
          .geometry = geometry,
          .explain = explain,
          .log = log};
}

}  // namespace kvscope
