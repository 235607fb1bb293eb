#include "engine/decode/eviction/observed_attention.h"

#include <algorithm>
#include <cmath>

namespace kvscope::engine {
namespace {

/// x: [..., n], over neighbours in the order of positions, as torch.nn.functional pools with padding on both sides.
at::Tensor pool(const at::Tensor& x, const Observation& observation) {
  if (observation.kernel_size == 1 || x.size(-1) == 0) return x;
  const std::int64_t size = observation.kernel_size, padding = size / 2;
  const at::Tensor rows = x.view({1, -1, x.size(-1)});
  const at::Tensor pooled =
      observation.max_pooling ? at::max_pool1d(rows, size, 1, padding) : at::avg_pool1d(rows, size, 1, padding);
  return pooled.narrow(2, 0, x.size(-1)).view(x.sizes());
}

}  // namespace

at::Tensor causal_probabilities(const at::Tensor& q, const at::Tensor& k, const at::Tensor& q_position,
                                const at::Tensor& k_position) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(k.size(-1)));
  at::Tensor logits = at::matmul(q.to(at::kFloat), k.to(at::kFloat).t()).mul_(scale);
  logits.masked_fill_(k_position.unsqueeze(0) > q_position.unsqueeze(1), -INFINITY);
  return logits.softmax(-1);
}

ObservedAttention::ObservedAttention(SequenceState& state, ReadObservation read)
    : AttentionMethod(state),
      read_(read),
      observation_(read(state.policy.spec(), state.policy.geometry())),
      ring_(state, observation_.n_queries) {}

void ObservedAttention::observe(int layer, const LayerTokens& tokens, std::int64_t first) {
  ring_.store(layer, tokens.q, first);
}

bool ObservedAttention::accepts(const PolicySpec& next) const {
  return next.value("pool") == state_.policy.spec().value("pool") &&
         read_(next, state_.policy.geometry()) == observation_;
}

at::Tensor ObservedAttention::scores(int layer, const OrderedLayer& tokens, int n_tokens) const {
  const ModelConfig& config = state_.model.config();
  const auto [q, q_position] = ring_.newest(layer, observation_.n_queries, n_tokens);
  const std::int64_t n_queries = q.size(0);
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
    const at::Tensor p = causal_probabilities(q.narrow(1, head * group, group).transpose(0, 1),
                                              tokens.k[head].narrow(0, 0, n), q_position, k_position)
                             .narrow(2, 0, n_before);
    const at::Tensor score = observation_.group_max ? pool(p.amax(0).sum(0), observation_)
                                                    : pool(p.mean(1).contiguous(), observation_).mean(0);
    out[head].narrow(0, 0, n_before).copy_(score);
  }
  return out;
}

}  // namespace kvscope::engine
