#pragma once
// What gates cost when they are hard: held-out loss and size of the cache at several thresholds (WG-KV Fig. 11).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace kvscope::engine {

/// Tokens held / tokens read where a token outlives the window if it is open, mean over heads, sequences and queries:
///
///     held(q) = #{t <= q : q - t < window or open_t}
///
/// open [..., T]: 0 or 1.
double cache_size(const at::Tensor& open, std::int64_t window);

struct ThresholdPoint {
  double loss = 0;        // the method's part that keeps the model's output
  double cache_size = 0;  // of hard gates
};
/// Rows {threshold, loss_output, cache_size} of a curve: of each threshold the mean over n_batches of `measure`.
std::vector<std::vector<double>> threshold_curve(
    const std::vector<double>& thresholds, int n_batches,
    const std::function<ThresholdPoint(double threshold, int batch)>& measure);

}  // namespace kvscope::engine
