#include "engine/core/study/measure/lifetime_differences.h"

#include <algorithm>

namespace kvscope {

LifetimeDifferences lifetime_differences(const RunRecord& before, const RunRecord& after) {
  LifetimeDifferences differences;
  const std::int32_t seen = std::min(before.n_queries, after.n_queries);
  for (int layer = 0; layer < before.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < before.evict_at.n_kv_heads(); ++head) {
      const auto &old_row = before.evict_at.row(layer, head), &new_row = after.evict_at.row(layer, head);
      const std::size_t n = std::min(old_row.size(), new_row.size());
      for (std::size_t t = 0; t < n; ++t) {
        // Of query `seen`, the first that one of them has not made, some policies have decided and some have not.
        const bool old_gone = old_row[t] < seen, new_gone = new_row[t] < seen;
        differences.n += old_gone || new_gone;
        differences.n_different += (old_gone || new_gone) && old_row[t] != new_row[t];
      }
    }
  }
  return differences;
}

}  // namespace kvscope
