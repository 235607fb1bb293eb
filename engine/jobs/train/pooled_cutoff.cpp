#include "engine/jobs/train/pooled_cutoff.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>
#include <vector>

namespace kvscope::engine {
namespace {
constexpr double kNoCutoff = std::numeric_limits<double>::infinity();
}

at::Tensor PooledCutoff::of_queries(const at::Tensor& values) const {
  const at::Tensor none = at::full({values.size(0), 1}, -kNoCutoff, values.options());
  return at::cat({none, values}, 1).index_select(1, point + 1).unsqueeze(0);
}

PooledCutoff pooled_cutoff(const at::Tensor& priorities, const CacheBudget& budget, std::int64_t stride) {
  const c10::NoGradGuard no_grad;
  const auto n_heads = priorities.size(0), n_batch = priorities.size(1), n = priorities.size(2);
  const auto index = at::TensorOptions(priorities.device()).dtype(at::kLong);
  std::vector<at::Tensor> heads, tokens;
  std::vector<std::int64_t> point(static_cast<std::size_t>(n), -1);
  for (std::int64_t q = 0; q < n; ++q) {
    const std::int64_t eligible = q - budget.window + 1 - budget.n_sink;  // tokens of a head that compete
    const bool is_first = heads.empty() && eligible > budget.top_k;
    if (is_first || (!heads.empty() && q % stride == 0)) {
      const at::Tensor all = priorities.narrow(2, budget.n_sink, eligible).transpose(0, 1).reshape({n_batch, -1});
      const at::Tensor last = std::get<1>(all.kthvalue(n_heads * (eligible - budget.top_k) + 1, 1));  // [B]
      heads.push_back(last.div(eligible, "floor"));
      tokens.push_back(last.remainder(eligible) + budget.n_sink);
    }
    point[static_cast<std::size_t>(q)] = static_cast<std::int64_t>(heads.size()) - 1;
  }
  const auto stacked = [&](const std::vector<at::Tensor>& of_points) {
    return of_points.empty() ? at::zeros({n_batch, 0}, index) : at::stack(of_points, 1);
  };
  return {stacked(heads), stacked(tokens), at::tensor(at::IntArrayRef(point), at::kLong).to(priorities.device())};
}

at::Tensor lifetimes_under(const at::Tensor& priorities, const at::Tensor& least, const CacheBudget& budget) {
  const c10::NoGradGuard no_grad;
  const auto n = priorities.size(2);
  const at::Tensor t = at::arange(n, at::TensorOptions(priorities.device()).dtype(at::kLong));
  const at::Tensor cutoff = least.expand_as(priorities).contiguous();
  const at::Tensor out = at::searchsorted(cutoff, priorities.contiguous(), /*out_int32=*/false, /*right=*/true);
  return at::where(t >= budget.n_sink, at::maximum(out, t + budget.window).clamp_max(n), n);
}

}  // namespace kvscope::engine
