#include "engine/jobs/train/running_top_k.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

namespace kvscope::engine {
namespace {

constexpr std::int64_t kCounts = 1 << 27;  // of running top-k at once: 512 MiB
constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor positions(std::int64_t n, at::Device device) {
  return at::arange(n, at::TensorOptions(device).dtype(at::kLong));
}

/// [B, HK, ...] -> [B, n_heads, ...]: each KV head once for every query head of its group.
at::Tensor for_query_heads(const at::Tensor& x, std::int64_t n_heads) {
  return x.size(1) == n_heads ? x : x.repeat_interleave(n_heads / x.size(1), 1);
}

/// Library attention under a mask of the KV heads, [B, HK, T, T]: bool, or to be added. LibTorch's kernel that takes a mask wants as
/// many heads of keys as of queries.
at::Tensor masked_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                            double scale) {
  const auto n_heads = q.size(2);
  const at::Tensor out = at::scaled_dot_product_attention(
      q.transpose(1, 2), for_query_heads(k.transpose(1, 2), n_heads), for_query_heads(v.transpose(1, 2), n_heads),
      for_query_heads(mask, n_heads), /*dropout_p=*/0, /*is_causal=*/false, scale);
  return out.transpose(1, 2).reshape({q.size(0), q.size(1), -1});
}

/// Whether a token competes at a query, [T, T] by query and token: outside sinks and window.
at::Tensor eligible(std::int64_t n, const CacheBudget& budget, at::Device device) {
  const at::Tensor t = positions(n, device);
  return (t <= (t - budget.window).unsqueeze(1)).logical_and(t >= budget.n_sink);
}

}  // namespace

at::Tensor running_top_k(const at::Tensor& priorities, const CacheBudget& budget) {
  const c10::NoGradGuard no_grad;
  const auto n = priorities.size(2);
  const at::Tensor t = positions(n, priorities.device());
  const at::Tensor older = t < t.unsqueeze(1), competes = t >= budget.n_sink;  // [T, T] by token and other; [T]
  const at::Tensor rows = priorities.reshape({-1, n});
  at::Tensor lifetimes = at::empty(rows.sizes(), t.options());
  // As many heads at once as make large passes and no large memory: each head by itself was hundreds of launches a step.
  const auto at_once = std::max<std::int64_t>(1, kCounts / (n * n));
  for (std::int64_t first = 0; first < rows.size(0); first += at_once) {
    const auto n_rows = std::min(at_once, rows.size(0) - first);
    const at::Tensor p = rows.narrow(0, first, n_rows).unsqueeze(1), mine = p.transpose(1, 2);
    const at::Tensor better = (p > mine).logical_or_((p == mine).logical_and_(older)).logical_and_(competes);
    // Others never leave the count, so that it only grows: once out, always out.
    const at::Tensor still_in = (better.cumsum(2, at::kInt) < budget.top_k).sum(2);  // newest tokens that leave it in
    const at::Tensor out = at::where(still_in < n, at::maximum(still_in, t) + budget.window, still_in);
    lifetimes.narrow(0, first, n_rows).copy_(at::where(competes, out.clamp_max(n), n));
  }
  return lifetimes.view(priorities.sizes());
}

at::Tensor cutoffs(const at::Tensor& priorities, const at::Tensor& lifetimes, const CacheBudget& budget) {
  const auto n = priorities.size(2);
  const at::Tensor t = positions(n, priorities.device());
  const at::Tensor competes = eligible(n, budget, priorities.device());
  at::Tensor last;  // seen by each query, [HK, B, q]
  {
    const c10::NoGradGuard no_grad;
    const at::Tensor seen = competes.logical_and(t.unsqueeze(1) < lifetimes.unsqueeze(2));  // [HK, B, q, t]
    last = priorities.unsqueeze(2).masked_fill(seen.logical_not(), kInfinity).argmin(-1);
  }
  return priorities.gather(2, last).masked_fill(competes.sum(-1) <= budget.top_k, -kInfinity);
}

at::Tensor lifetime_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& lifetimes, double scale) {
  const at::Tensor t = positions(q.size(1), q.device());
  const at::Tensor query = t.unsqueeze(1);
  const at::Tensor seen =
      (t <= query).logical_and(query < lifetimes.transpose(0, 1).unsqueeze(2));  // [B, HK, T, T] by query and token
  return masked_attention(q, k, v, seen, scale);
}

at::Tensor soft_top_k_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& priorities, const at::Tensor& least, const CacheBudget& budget,
                                double temperature, double scale) {
  const auto n = q.size(1);
  const at::Tensor t = positions(n, q.device());
  const at::Tensor competes = eligible(n, budget, q.device());
  const at::Tensor counts = competes.logical_and(least.unsqueeze(-1) > -kInfinity);
  // Infinities are taken out before the difference: the gradient of one that where() leaves out would be no number.
  const at::Tensor finite = least.masked_fill(least == -kInfinity, 0).unsqueeze(-1);
  const at::Tensor above = (priorities.unsqueeze(2) - finite) / temperature;  // [HK, B, q, t]
  at::Tensor bias = at::where(counts, at::log_sigmoid(above), at::zeros({}, above.options()));
  bias = bias.masked_fill(t > t.unsqueeze(1), -kInfinity);
  return masked_attention(q, k, v, bias.transpose(0, 1).to(q.scalar_type()), scale);
}

}  // namespace kvscope::engine
