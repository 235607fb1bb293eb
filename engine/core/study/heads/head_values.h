#pragma once
// Heads chosen by values that were measured elsewhere, and the values that runs give.

#include <vector>

#include "engine/core/policy/policy.h"
#include "engine/core/study/heads/head_selection.h"

namespace kvscope {

/// As choose_heads() chooses, with `heads.alpha`, [n_layers * n_kv_heads], in the place of density: of equal values the
/// lower layer, then the lower head, and `tied` says where that decided. Coverage is NaN: there are no runs. Throws Error
/// (usage) as choose_heads() does, and for D of values that are all equal.
HeadSelection choose_by_values(const HeadsOfModel& heads, const HeadQuestion& question);

/// [n_layers * n_kv_heads] density (retention_metrics.h) at each run's last query: the mean over the runs, and the
/// standard deviation between them, with n - 1; NaN where fewer than one or two runs have one.
struct HeadDensities {
  std::vector<double> mean, deviation;
};
/// Of runs of one shape.
HeadDensities head_densities(const std::vector<const RunRecord*>& runs);

}  // namespace kvscope
