#include "engine/jobs/train/gate_thresholds.h"

#include <ATen/ATen.h>

namespace kvscope::engine {

double cache_size(const at::Tensor& open, std::int64_t window) {
  const std::int64_t n = open.size(-1);
  const at::Tensor queries = at::arange(1, n + 1, open.options().dtype(at::kDouble));
  at::Tensor held = queries.clamp_max(static_cast<double>(window)).expand(open.sizes()).clone();
  if (n > window) {
    held.narrow(-1, window, n - window).add_(open.narrow(-1, 0, n - window).to(at::kDouble).cumsum(-1));
  }
  return (held / queries).mean().item<double>();
}

std::vector<std::vector<double>> threshold_curve(
    const std::vector<double>& thresholds, int n_batches,
    const std::function<ThresholdPoint(double threshold, int batch)>& measure) {
  std::vector<std::vector<double>> rows;
  for (const double threshold : thresholds) {
    ThresholdPoint sum;
    for (int batch = 0; batch < n_batches; ++batch) {
      const ThresholdPoint point = measure(threshold, batch);
      sum.loss += point.loss / n_batches, sum.cache_size += point.cache_size / n_batches;
    }
    rows.push_back({threshold, sum.loss, sum.cache_size});
  }
  return rows;
}

}  // namespace kvscope::engine
