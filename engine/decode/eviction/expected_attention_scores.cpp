// Expected Attention (Devoto et al., 2025): the attention that a key can expect from queries distributed like those
// seen so far, N(mu, Sigma) before rotation, at the positions to come.
#include <ATen/ATen.h>

#include <algorithm>

#include "engine/decode/eviction/mass_eviction.h"
#include "engine/model/weights.h"

namespace kvscope::engine {
namespace {

/// Mean of the rotations to positions first ... first + n - 1, [head_dim, head_dim]: rotation is linear, so what it
/// makes of mu and Sigma in the mean is this matrix.
at::Tensor mean_rotation(const LayerWeights& layer, std::int64_t first, std::int64_t n) {
  const at::Tensor position = at::arange(first, first + n, layer.inv_freq.options());
  const at::Tensor angle = position.unsqueeze(1) * layer.inv_freq.unsqueeze(0);
  const at::Tensor cosine = at::diag(angle.cos().mean(0)), sine = at::diag(angle.sin().mean(0));
  const at::Tensor top = at::cat({cosine, -sine}, 1), bottom = at::cat({sine, cosine}, 1);
  return at::cat({top, bottom}, 0) * layer.attention_scaling;
}

/// Queries [n, n_heads, head_dim] at `position`, turned back, float32.
at::Tensor unrotated(const at::Tensor& q, const at::Tensor& position, const LayerWeights& layer) {
  const at::Tensor angle = (position.to(at::kFloat).unsqueeze(1) * layer.inv_freq.unsqueeze(0)).unsqueeze(1);
  const at::Tensor x = q.to(at::kFloat) / layer.attention_scaling;
  const std::int64_t half = x.size(2) / 2;
  const at::Tensor low = x.narrow(2, 0, half), high = x.narrow(2, half, half);
  return at::cat({low * angle.cos() + high * angle.sin(), high * angle.cos() - low * angle.sin()}, 2);
}

struct Statistics {
  at::Tensor mean;        // [n_heads, head_dim]
  at::Tensor covariance;  // [n_heads, head_dim, head_dim]
};

Statistics of_sums(const at::Tensor& sum, const at::Tensor& outer, double n) {
  const at::Tensor mean = sum / std::max(1.0, n);
  return {mean, outer / std::max(1.0, n) - mean.unsqueeze(2) * mean.unsqueeze(1)};
}

Statistics statistics(const SequenceState& state, int layer, int n_tokens, bool of_prompt) {
  if (of_prompt) return of_sums(state.query_sum[layer], state.query_outer[layer], static_cast<double>(state.n_queries));
  const ModelConfig& config = state.model.config();
  const at::Tensor ring = state.query_ring[layer];
  const std::int64_t n = std::min<std::int64_t>(ring.size(0), n_tokens);
  const at::Tensor position = at::arange(n_tokens - n, n_tokens, ring.options().dtype(at::kLong));
  const at::Tensor q =
      unrotated(ring.index_select(0, position.remainder(ring.size(0))).view({n, config.n_heads, config.head_dim}),
                position, state.model.weights().layers[layer])
          .transpose(0, 1);
  return of_sums(q.sum(1), at::bmm(q.transpose(1, 2), q), static_cast<double>(n));
}

}  // namespace

at::Tensor expected_attention_scores(const SequenceState& state, int layer, const OrderedLayer& tokens, int n_tokens,
                                     bool of_prompt) {
  const Compression& compression = state.policy.plan().compression;
  const ModelConfig& config = state.model.config();
  const Statistics seen = statistics(state, layer, n_tokens, of_prompt);
  const at::Tensor rotation = mean_rotation(state.model.weights().layers[layer], n_tokens, compression.n_future);
  const at::Tensor mean = at::matmul(seen.mean, rotation.t());
  const at::Tensor covariance = at::matmul(at::matmul(rotation, seen.covariance), rotation.t());
  const double scale = config.attention_scale(layer);
  at::Tensor out = at::zeros({config.n_kv_heads, tokens.most()}, at::kFloat);
  for (int head = 0; head < config.n_kv_heads; ++head) {
    const auto& positions = tokens.positions[static_cast<std::size_t>(head)];
    const auto n = static_cast<std::int64_t>(positions.size());
    const std::int64_t n_sink =
        std::lower_bound(positions.begin(), positions.end(), compression.n_sink) - positions.begin();
    if (n == n_sink) continue;
    const int group = config.group_size();
    const at::Tensor k = tokens.k[head].narrow(0, n_sink, n - n_sink).to(at::kFloat);
    at::Tensor logits = at::matmul(mean.narrow(0, head * group, group), k.t()) * scale;  // [group, n - n_sink]
    if (compression.covariance) {
      const at::Tensor of_head = covariance.narrow(0, head * group, group);
      logits = logits + (at::matmul(k.unsqueeze(0), of_head) * k.unsqueeze(0)).sum(2) * (scale * scale / 2);
    }
    at::Tensor score = logits.softmax(-1).mean(0);
    if (compression.value_norm) {
      score = (score + compression.epsilon) * tokens.v[head].narrow(0, n_sink, n - n_sink).to(at::kFloat).norm(2, -1);
    }
    out[head].narrow(0, n_sink, n - n_sink).copy_(score);
  }
  return out;
}

}  // namespace kvscope::engine
