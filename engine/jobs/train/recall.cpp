#include "engine/jobs/train/recall.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>

namespace kvscope::engine {

at::Tensor oracle_recall(const at::Tensor& scores, const at::Tensor& target, int n_sink, int window, int top_k) {
  const c10::NoGradGuard no_grad;
  constexpr std::int64_t kChunk = 64;  // queries at once: [HK, B, 64, T] stays small beside the model
  const auto n_positions = scores.size(2);
  const std::int64_t first = n_sink + window + top_k;
  const at::Tensor position = at::arange(n_positions, at::TensorOptions(scores.device()).dtype(at::kLong));
  at::Tensor shared = at::zeros({scores.size(0)}, scores.options().dtype(at::kDouble));
  for (std::int64_t begin = first; begin < n_positions; begin += kChunk) {
    const auto rows = std::min(kChunk, n_positions - begin);
    const at::Tensor newest = (position.narrow(0, begin, rows) - window).unsqueeze(1);
    const at::Tensor not_eligible =
        (position.unsqueeze(0) > newest).logical_or(position.unsqueeze(0) < n_sink);  // [rows, T]
    const auto kept = [&](const at::Tensor& values) {
      const at::Tensor candidates =
          values.unsqueeze(2).masked_fill(not_eligible, -std::numeric_limits<double>::infinity());
      const at::Tensor indices = std::get<1>(candidates.topk(top_k, -1, true, /*sorted=*/false));
      return at::zeros(candidates.sizes(), candidates.options()).scatter_(-1, indices, 1.0);
    };
    shared.add_((kept(scores) * kept(target)).sum({1, 2, 3}));
  }
  const double n_oracle = static_cast<double>(n_positions - first) * scores.size(1) * top_k;
  return (shared / n_oracle).to(at::kFloat).cpu();
}

}  // namespace kvscope::engine
