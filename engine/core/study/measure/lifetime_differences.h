#pragma once
// Whether a run that was decoded again came to the same decisions.

#include "engine/core/record/run_record.h"

namespace kvscope {

/// Of the evictions that the queries that both runs have made tell of (evict_at < their number): how many, and how many of
/// them differ. Both of one shape, with the same tokens as far as the shorter one goes.
struct LifetimeDifferences {
  std::int64_t n = 0, n_different = 0;
};
LifetimeDifferences lifetime_differences(const RunRecord& before, const RunRecord& after);

}  // namespace kvscope
