#include "engine/decode/eviction/observed_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/ring_store.h"

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

QueryRing::QueryRing(const SequenceState& state, int n_rows)
    : n_heads_(state.model.config().n_heads), head_dim_(state.model.config().head_dim) {
  const Weights& weights = state.model.weights();
  rows_ = at::zeros({state.model.config().n_layers, n_rows, n_heads_ * head_dim_},
                    at::TensorOptions().device(weights.device).dtype(weights.dtype));
}

void QueryRing::store(int layer, const at::Tensor& q, std::int64_t first) {
  const std::int64_t n = q.size(0), kept = std::min(rows_.size(1), n), from = n - kept;
  const at::Tensor row =
      at::arange(first + from, first + n, rows_.options().dtype(at::kLong)).remainder_(rows_.size(1));
  rows_[layer].index_copy_(0, row, q.narrow(0, from, kept).reshape({kept, -1}));
}

void QueryRing::enqueue(const LayerStep& step) {
  const at::Tensor ring = rows_[step.layer];
  kernels::ring_store({.row = step.q,
                       .ring = ring.data_ptr(),
                       .position = step.position,
                       .row_bytes = ring.stride(0) * static_cast<std::int64_t>(ring.element_size()),
                       .n_rows = static_cast<int>(ring.size(0))},
                      step.place);
}

QueryRing::Queries QueryRing::newest(int layer, std::int64_t n, std::int64_t n_tokens) const {
  n = std::min({n, rows_.size(1), n_tokens});
  const at::Tensor position = at::arange(n_tokens - n, n_tokens, rows_.options().dtype(at::kLong));
  return {rows_[layer].index_select(0, position.remainder(rows_.size(1))).view({n, n_heads_, head_dim_}), position};
}

void LeastAttention::after_attention(const LayerStep& step) {
  if (state_.policy.is_local_layer(step.layer)) return;
  const ModelConfig& config = state_.model.config();
  kernels::attention_mass({.cache = state_.cache.view(step.layer),
                           .q = step.q,
                           .lse = step.lse,
                           .position = step.position,
                           .n_heads = config.n_heads,
                           .scale = static_cast<float>(config.attention_scale(step.layer)),
                           .rule = rule_,
                           .soft_cap = static_cast<float>(config.layers[step.layer].attention.soft_cap)},
                          step.place);
}

void LeastAttention::after_prompt(int prompt_len, StepFacts* facts) {
  const RetentionPlan& plan = state_.policy.plan();
  if (!plan.dense_prefill) return;
  keep_best(
      state_, {.n_tokens = prompt_len, .fixed_from = prompt_len - plan.protect},
      [&](int layer, const OrderedLayer& tokens) { return prompt_scores(layer, tokens, prompt_len); }, facts);
}

void LeastAttention::after_chunk(int n_tokens, StepFacts* facts) {
  if (!state_.policy.defers() || !exceeds_budget(state_)) return;
  keep_best(
      state_, {.n_tokens = n_tokens, .fixed_from = n_tokens - state_.policy.plan().protect},
      [&](int layer, const OrderedLayer& tokens) {
        return in_chunks_ ? prompt_scores(layer, tokens, n_tokens) : priorities(state_, layer, tokens);
      },
      facts);
}

at::Tensor causal_probabilities(const at::Tensor& q, const at::Tensor& k, const at::Tensor& q_position,
                                const at::Tensor& k_position, const AttentionScores& scores) {
  at::Tensor logits = scores.score_(at::matmul(q.to(at::kFloat), k.to(at::kFloat).t()));
  logits.masked_fill_(k_position.unsqueeze(0) > q_position.unsqueeze(1), -INFINITY);
  return scores.weights_of(logits);
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
  const AttentionScores scores = attention_scores(config, state_.model.weights(), layer);
  at::Tensor out = at::zeros({config.n_kv_heads, tokens.most()}, tokens.k.options().dtype(at::kFloat));
  for (int head = 0; head < config.n_kv_heads; ++head) {
    const auto& positions = tokens.positions[static_cast<std::size_t>(head)];
    const auto n = static_cast<std::int64_t>(positions.size());
    const auto n_before = static_cast<std::int64_t>(
        std::lower_bound(positions.begin(), positions.end(), n_tokens - static_cast<std::int32_t>(n_queries)) -
        positions.begin());  // those that are not among the observers
    if (n_before == 0) continue;
    const at::Tensor k_position = tokens.position[head].narrow(0, 0, n);
    const int group = config.group_size();
    const at::Tensor p =
        causal_probabilities(q.narrow(1, head * group, group).transpose(0, 1), tokens.k[head].narrow(0, 0, n),
                             q_position, k_position, scores.of_heads(head * group, group))
            .narrow(2, 0, n_before);
    const at::Tensor score = observation_.group_max ? pool(p.amax(0).sum(0), observation_)
                                                    : pool(p.mean(1).contiguous(), observation_).mean(0);
    out[head].narrow(0, 0, n_before).copy_(score);
  }
  return out;
}

}  // namespace kvscope::engine
