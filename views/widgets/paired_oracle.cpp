#include "views/widgets/paired_oracle.h"

#include <algorithm>
#include <span>
#include <vector>

namespace kvscope::views {

PairedOracle::PairedOracle(const RunRecord& a, const RunRecord* b) {
  if (b != nullptr) common_ = CommonOracle::of(a, *b);
}

Oracle PairedOracle::of(const RunRecord& run) const { return common_ ? common_->oracle(run) : Oracle(run); }

OracleCounts counts_at(const Oracle& oracle, int layer, int kv_head, std::int32_t q) {
  if (oracle.n_queries() == 0) return {};
  return oracle.counts(layer, kv_head, std::min(q, oracle.n_queries() - 1));
}

OracleMean mean_up_to(const Oracle& oracle, int layer, int kv_head, std::int32_t q) {
  if (!oracle.is_known() || oracle.n_queries() == 0) return mean_of(std::span<const OracleCounts>());
  const std::vector<OracleCounts> curve = oracle.curve(layer, kv_head);
  const std::size_t n = std::min(curve.size(), static_cast<std::size_t>(q) + 1);
  return mean_of(std::span(curve).first(n));
}

}  // namespace kvscope::views
