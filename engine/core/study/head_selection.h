#pragma once
// Which heads stay global in a hybrid: chosen from density.

#include <vector>

#include "engine/core/study/retention_metrics.h"

namespace kvscope {

struct HeadSelection {
  int n_layers = 0, n_kv_heads = 0;
  std::vector<float> full;  // [n_layers][n_kv_heads] 1 for a global (full-attention) head, 0 for a local one
  double coverage = 0;      // retained long-range entries in the chosen heads / all retained long-range entries
  int n_selected() const;
};

/// Strategy D of SP-KV section 4: the round(share * heads) densest heads, ties to the lower layer, then the lower head.
/// `retained` counts long-range entries per head over all runs and decides both density order and coverage.
HeadSelection densest_heads(const std::vector<const RunRecord*>& runs, double share);

}  // namespace kvscope
