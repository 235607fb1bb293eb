#include "engine/jobs/train/boundary_loss.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <limits>

namespace kvscope::engine {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr double kLargestProportion = 4;  // a few very clear decisions must not be the whole gradient

/// Sums of each layer, [n_layers, 1].
at::Tensor of_layer(const at::Tensor& x, int n_layers) { return x.reshape({n_layers, -1}).sum(1, true); }

/// omega_bal of eq. 24 per head, then divided by its mean over valid contests.
at::Tensor balance_weight(const at::Tensor& keep, const at::Tensor& valid, const ScorerOptions& options) {
  const at::Tensor n_valid = valid.sum({1, 2}, /*keepdim=*/true).clamp_min(1);
  const at::Tensor share = (keep * valid).sum({1, 2}, true) / n_valid;  // rho_h
  const auto factor = [&](const at::Tensor& s) {
    return (0.5 / s.clamp_min(1e-6)).clamp(options.balance_min, options.balance_max);
  };
  const at::Tensor weight = at::where(keep > 0, factor(share), factor(1 - share)) * valid;
  return weight * n_valid / weight.sum({1, 2}, true).clamp_min(1e-6);
}

at::Tensor margin_weight(const at::Tensor& margin, const at::Tensor& valid, const ScorerOptions& options,
                         int n_layers) {
  if (options.margin == MarginWeight::sigmoid) {
    const at::Tensor sharpness = at::sigmoid(margin / options.margin_temperature);
    return options.margin_min + (1 - options.margin_min) * sharpness;
  }
  if (options.margin == MarginWeight::proportional) {
    const at::Tensor mean = of_layer(margin * valid, n_layers) / of_layer(valid, n_layers).clamp_min(1);
    return (margin.view({n_layers, -1}) / (mean + 1e-6)).clamp_max(kLargestProportion).view(margin.sizes());
  }
  return at::ones_like(margin);
}

}  // namespace

std::vector<std::int64_t> sample_queries(Random& random, const ScorerOptions& options, int top_k, int n_positions) {
  const std::int64_t first = options.n_sink + options.window + top_k;
  const std::int64_t n = n_positions - first;
  std::vector<std::int64_t> queries(static_cast<std::size_t>(options.queries));
  for (auto& query : queries) {
    const bool late = random.uniform() < options.late_share;
    const double share = late ? std::sqrt(random.uniform()) : random.uniform();
    query = first + std::min(n - 1, static_cast<std::int64_t>(share * static_cast<double>(n)));
  }
  return queries;
}

BoundaryPairs boundary_pairs(const at::Tensor& target, const std::vector<std::int64_t>& queries, int top_k,
                             const ScorerOptions& options, int n_layers) {
  const c10::NoGradGuard no_grad;
  const auto n_positions = target.size(2);
  const auto index = at::TensorOptions(target.device()).dtype(at::kLong);
  const at::Tensor position = at::arange(n_positions, index);
  const at::Tensor newest =
      at::tensor(at::IntArrayRef(queries), at::TensorOptions(at::kLong)).to(target.device()) - options.window;  // [Q]
  const at::Tensor eligible =
      (position.unsqueeze(0) <= newest.unsqueeze(1)).logical_and(position.unsqueeze(0) >= options.n_sink);  // [Q, T]

  BoundaryPairs pairs;
  const at::Tensor candidates = target.unsqueeze(2).masked_fill(eligible.logical_not(), kMinusInfinity);
  // The top_k-th greatest by selection: nobody wants the others, in order.
  pairs.boundary = std::get<1>(candidates.kthvalue(n_positions - top_k + 1, -1));  // [HK, B, Q]
  pairs.newcomer = newest.expand_as(pairs.boundary).contiguous();
  const at::Tensor gap = target.gather(2, pairs.newcomer) - target.gather(2, pairs.boundary);
  const at::Tensor keep = (gap >= 0).to(at::kFloat);
  const at::Tensor valid = (pairs.newcomer != pairs.boundary).to(at::kFloat);
  pairs.label = 2 * keep - 1;
  pairs.weight = balance_weight(keep, valid, options) * margin_weight(gap.abs(), valid, options, n_layers) * valid;
  pairs.n_layers = n_layers;
  return pairs;
}

at::Tensor boundary_loss(const at::Tensor& newcomer_score, const at::Tensor& boundary_score, const BoundaryPairs& pairs,
                         double temperature) {
  const at::Tensor wrong = at::softplus(-pairs.label * (newcomer_score - boundary_score) / temperature);
  const at::Tensor n_valid = of_layer(pairs.newcomer != pairs.boundary, pairs.n_layers).clamp_min(1);
  return (of_layer(wrong * pairs.weight, pairs.n_layers) / n_valid).sum();
}

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
      const at::Tensor candidates = values.unsqueeze(2).masked_fill(not_eligible, kMinusInfinity);
      const at::Tensor indices = std::get<1>(candidates.topk(top_k, -1, true, /*sorted=*/false));
      return at::zeros(candidates.sizes(), candidates.options()).scatter_(-1, indices, 1.0);
    };
    shared.add_((kept(scores) * kept(target)).sum({1, 2, 3}));
  }
  const double n_oracle = static_cast<double>(n_positions - first) * scores.size(1) * top_k;
  return (shared / n_oracle).to(at::kFloat).cpu();
}

}  // namespace kvscope::engine
