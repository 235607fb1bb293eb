// SnapKV (Li et al., 2024) and WG-KV's variant (App. K): the attention that the newest queries paid to each token.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "engine/decode/eviction/mass_eviction.h"

namespace kvscope::engine {
namespace {

/// Probabilities [group, queries, keys] of one KV head: softmax over the keys at positions <= the query's.
at::Tensor probabilities(const at::Tensor& q, const at::Tensor& k, const at::Tensor& q_position,
                         const at::Tensor& k_position, double scale) {
  at::Tensor logits = at::matmul(q.to(at::kFloat), k.to(at::kFloat).t()).mul_(scale);
  logits.masked_fill_(k_position.unsqueeze(0) > q_position.unsqueeze(1), -INFINITY);
  return logits.softmax(-1);
}

/// x: [..., n], over neighbours in the order of positions, as torch.nn.functional pools with padding on both sides.
at::Tensor pool(const at::Tensor& x, const Compression& compression) {
  if (compression.kernel_size == 1 || x.size(-1) == 0) return x;
  const std::int64_t size = compression.kernel_size, padding = size / 2;
  const at::Tensor rows = x.view({1, -1, x.size(-1)});
  const at::Tensor pooled =
      compression.max_pooling ? at::max_pool1d(rows, size, 1, padding) : at::avg_pool1d(rows, size, 1, padding);
  return pooled.narrow(2, 0, x.size(-1)).view(x.sizes());
}

/// The newest n rows of the ring at their positions, oldest first: [n, n_heads, head_dim] and [n].
std::pair<at::Tensor, at::Tensor> newest(const SequenceState& state, int layer, std::int64_t n, std::int64_t n_tokens) {
  const at::Tensor ring = state.query_ring[layer];
  const at::Tensor position = at::arange(n_tokens - n, n_tokens, ring.options().dtype(at::kLong));
  const ModelConfig& config = state.model.config();
  return {ring.index_select(0, position.remainder(ring.size(0))).view({n, config.n_heads, config.head_dim}), position};
}

}  // namespace

at::Tensor snapkv_scores(const SequenceState& state, int layer, const OrderedLayer& tokens, int n_tokens) {
  const Compression& compression = state.policy.plan().compression;
  const ModelConfig& config = state.model.config();
  const std::int64_t n_queries = std::min<std::int64_t>(compression.observe, n_tokens);
  const auto [q, q_position] = newest(state, layer, n_queries, n_tokens);
  at::Tensor out = at::zeros({config.n_kv_heads, tokens.most()}, at::kFloat);
  for (int head = 0; head < config.n_kv_heads; ++head) {
    const auto& positions = tokens.positions[static_cast<std::size_t>(head)];
    const auto n = static_cast<std::int64_t>(positions.size());
    const auto n_before = static_cast<std::int64_t>(
        std::lower_bound(positions.begin(), positions.end(), n_tokens - static_cast<std::int32_t>(n_queries)) -
        positions.begin());  // those that are not among the observers
    if (n_before == 0) continue;
    const at::Tensor k_position = at::tensor(at::ArrayRef<std::int32_t>(positions), at::kInt).to(q.device());
    const int group = config.group_size();
    const at::Tensor p = probabilities(q.narrow(1, head * group, group).transpose(0, 1), tokens.k[head].narrow(0, 0, n),
                                       q_position, k_position, config.attention_scale(layer))
                             .narrow(2, 0, n_before);
    const at::Tensor score =
        compression.group_max ? pool(p.amax(0).sum(0), compression) : pool(p.mean(1).contiguous(), compression).mean(0);
    out[head].narrow(0, 0, n_before).copy_(score);
  }
  return out;
}

at::Tensor last_attention_scores(const SequenceState& state, int layer, const OrderedLayer& tokens, int n_tokens) {
  const ModelConfig& config = state.model.config();
  const auto [q, q_position] = newest(state, layer, 1, n_tokens);
  at::Tensor sum = at::zeros({tokens.most()}, tokens.k.options().dtype(at::kFloat));
  for (int head = 0; head < config.n_kv_heads; ++head) {
    const int group = config.group_size();
    const auto& positions = tokens.positions[static_cast<std::size_t>(head)];
    const at::Tensor k_position = at::tensor(at::ArrayRef<std::int32_t>(positions), at::kInt).to(q.device());
    const at::Tensor k = tokens.k[head].narrow(0, 0, static_cast<std::int64_t>(positions.size()));
    const at::Tensor p = probabilities(q.narrow(1, head * group, group).transpose(0, 1), k, q_position, k_position,
                                       config.attention_scale(layer));  // [group, 1, n]
    sum.narrow(0, 0, k.size(0)).add_(p.select(1, 0).sum(0));
  }
  return sum.div_(config.n_heads).unsqueeze(0).expand({config.n_kv_heads, -1});
}

}  // namespace kvscope::engine
