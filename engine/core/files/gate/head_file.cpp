#include "engine/core/files/gate/head_file.h"

#include <algorithm>

#include "engine/core/study/heads/head_values.h"

namespace kvscope {

HeadChoice choice_of_runs(const std::vector<const RunRecord*>& runs, HeadSelection selection, LocalSizes sizes) {
  const ModelInfo& model = runs[0]->model;
  HeadDensities densities = head_densities(runs);
  HeadOrigin origin{.model = model.name,
                    .weights_hash = model.weights_hash,
                    .signal = "density",
                    .n_runs = static_cast<int>(runs.size()),
                    .value = std::move(densities.mean),
                    .spread = std::move(densities.deviation)};
  for (const RunRecord* run : runs) {
    const std::string policy = run->policy.to_string();
    if (std::ranges::count(origin.policies, policy) == 0) origin.policies.push_back(policy);
  }
  return {.selection = std::move(selection),
          .sizes = sizes,
          .origin = std::move(origin),
          .group_size = model.n_kv_heads > 0 ? model.n_heads / model.n_kv_heads : 0};
}

}  // namespace kvscope
