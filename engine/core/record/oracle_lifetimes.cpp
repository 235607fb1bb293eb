#include "engine/core/record/oracle_lifetimes.h"

#include <algorithm>
#include <cmath>

namespace kvscope {

static constexpr float kOracleEpsilon = 1e-6f;  // inside the log, with normalised mass (KVpop eq. 2 and 3)

void compute_oracle_lifetimes(RunRecord& run) {
  const RetentionGeometry geometry = run.geometry();
  const int n_layers = run.future_mass.n_layers(), n_kv_heads = run.future_mass.n_kv_heads();
  run.oracle_evict_at = LifetimeMap(n_layers, n_kv_heads);
  run.oracle_evict_at.resize(run.ids.size(), kUndecided);
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int head = 0; head < n_kv_heads; ++head) {
      const std::vector<float>& mass = run.future_mass.row(layer, head);
      const int known = std::min(static_cast<int>(mass.size()), run.n_tokens());
      const int horizon = run.oracle_horizon > 0 ? std::min(run.oracle_horizon, known) : known;
      std::vector<float> target(horizon);
      std::transform(mass.begin(), mass.begin() + horizon, target.begin(),
                     [](float m) { return std::log(kOracleEpsilon + m); });
      running_top_k(target, geometry, horizon, run.oracle_evict_at.row(layer, head));
    }
  }
  if (run.oracle_horizon == 0 && !run.future_mass.empty()) {
    run.oracle_horizon = std::min(run.n_tokens(), static_cast<int>(run.future_mass.row(0, 0).size()));
  }
}

}  // namespace kvscope
