#pragma once
// By what A and B beside it are judged, as on the map: by one oracle where they have one in common, else each by its own.

#include <optional>

#include "engine/core/study/measure/common_oracle.h"
#include "engine/core/study/measure/oracle.h"

namespace kvscope::views {

/// Refers to the runs.
class PairedOracle {
 public:
  /// b may be null: A alone, by its own.
  PairedOracle(const RunRecord& a, const RunRecord* b);
  /// `run`: a or b.
  Oracle of(const RunRecord& run) const;
  const std::optional<CommonOracle>& common() const { return common_; }

 private:
  std::optional<CommonOracle> common_;
};

/// Of one head at q, or at the last query that the oracle has seen; all 0 where there is none.
OracleCounts counts_at(const Oracle& oracle, int layer, int kv_head, std::int32_t q);
/// Over the queries up to q.
OracleMean mean_up_to(const Oracle& oracle, int layer, int kv_head, std::int32_t q);

}  // namespace kvscope::views
