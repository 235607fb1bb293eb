#pragma once
// What the map shows first.

#include <optional>

#include "views/selection/view_state.h"

namespace kvscope::app {

/// A head that evicts: nothing if the first one does, or none.
std::optional<views::KvHead> evicting_head(const RunRecord& run);
/// Beside B recall above chance, by one oracle for both, where it has a value; of A alone what varies over its heads.
Metric opening_metric(const RunRecord& a, const RunRecord* b, Metric now);

}  // namespace kvscope::app
