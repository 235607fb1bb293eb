#pragma once
// The pool of a plan whose heads share a budget.

#include <vector>

#include "engine/core/lifetime/pooled_top_k.h"
#include "engine/core/policy/retention_plan.h"

namespace kvscope {

/// The geometry of each of a model's n_heads, as PooledTopK wants them.
inline std::vector<RetentionGeometry> geometry_of_heads(const RetentionPlan& plan, const RetentionGeometry& geometry,
                                                        int n_heads) {
  std::vector<RetentionGeometry> of_head;
  for (int head = 0; head < n_heads; ++head) of_head.push_back(plan.of_head(geometry, head));
  return of_head;
}

}  // namespace kvscope
