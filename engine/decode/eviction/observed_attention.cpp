#include "engine/decode/eviction/observed_attention.h"

#include <algorithm>

#include "kernels/ring_store.h"

namespace kvscope::engine {
namespace {

/// x: [..., n], over neighbours in the order of positions, as torch.nn.functional pools with padding on both sides.
at::Tensor pool(const at::Tensor& x, const Observation& observation) {
  if (observation.kernel_size == 1 || x.size(-1) == 0) return x;
  const std::int64_t size = observation.kernel_size, padding = size / 2;
  const at::Tensor rows = x.reshape({1, -1, x.size(-1)});
  const at::Tensor pooled =
      observation.max_pooling ? at::max_pool1d(rows, size, 1, padding) : at::avg_pool1d(rows, size, 1, padding);
  return pooled.narrow(2, 0, x.size(-1)).view(x.sizes());
}

}  // namespace

QueryRing::QueryRing(const SequenceState& state, int n_rows)
    : n_heads_(state.model.config().n_heads),
      n_kv_heads_(state.model.config().n_kv_heads),
      head_dim_(state.model.config().head_dim) {
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

QueryRing::Queries QueryRing::newest(const at::Tensor& layer, std::int64_t n, std::int64_t n_tokens) const {
  n = std::min({n, rows_.size(1), n_tokens});
  const std::int64_t n_layers = layer.size(0), group = n_heads_ / n_kv_heads_;
  const at::Tensor position = at::arange(n_tokens - n, n_tokens, layer.options());
  const at::Tensor row = layer.unsqueeze(1) * rows_.size(1) + position.remainder(rows_.size(1));
  const at::Tensor q = rows_.flatten(0, 1).index_select(0, row.view({-1})).view({n_layers, n, n_heads_, head_dim_});
  return {q.transpose(1, 2).to(at::kFloat).reshape({-1, group, n, head_dim_}), position};
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
  keep_best(state_, {.n_tokens = prompt_len, .fixed_from = prompt_len - plan.protect}, prompt_score(prompt_len), facts);
}

void LeastAttention::after_chunk(int n_tokens, StepFacts* facts) {
  if (!state_.policy.defers() || !exceeds_budget(state_)) return;
  keep_best(state_, {.n_tokens = n_tokens, .fixed_from = n_tokens - state_.policy.plan().protect},
            in_chunks_ ? prompt_score(n_tokens) : by_priority(state_), facts);
}

AttentionScores scores_of(const SequenceState& state, const std::vector<int>& layers) {
  AttentionScores scores = attention_scores(state.model.config(), state.model.weights(), layers.front());
  if (!scores.sink.defined() || layers.size() == 1) return scores;
  std::vector<at::Tensor> sinks;
  for (const int layer : layers) sinks.push_back(state.model.weights().layers[static_cast<std::size_t>(layer)].sink);
  scores.sink = at::cat(sinks);
  return scores;
}

at::Tensor causal_probabilities(const at::Tensor& q, const at::Tensor& k, const at::Tensor& q_position,
                                const at::Tensor& k_position, const AttentionScores& scores) {
  const std::int64_t rows = q.size(0), group = q.size(1), n = q.size(2), n_keys = k.size(1);
  const at::Tensor logits = scores.score_(at::bmm(q.flatten(1, 2), k.to(at::kFloat).transpose(1, 2)));
  const at::Tensor hidden = k_position.unsqueeze(1) > q_position.unsqueeze(1);  // [rows, n, n_keys]
  logits.view({rows, group, n, n_keys}).masked_fill_(hidden.unsqueeze(1), -INFINITY);
  return scores.weights_of(logits.view({rows * group, n, n_keys})).view({rows, group, n, n_keys});
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

Score ObservedAttention::score(int n_tokens) const {
  return {.reads = Reads::keys,
          .of = [this, n_tokens](const OrderedTokens& tokens) { return scores(tokens, n_tokens); }};
}

at::Tensor ObservedAttention::scores(const OrderedTokens& tokens, int n_tokens) const {
  const auto [q, q_position] = ring_.newest(tokens.layer, observation_.n_queries, n_tokens);
  const std::int64_t rows = q.size(0), group = q.size(1), n_queries = q.size(2);
  const AttentionScores scores = scores_of(state_, tokens.layers);
  const at::Tensor position = tokens.position.flatten(0, 1);
  const at::Tensor is_observer = position >= n_tokens - n_queries;  // or an empty place
  const auto of_rows = [&, &q = q, &q_position = q_position](std::int64_t first, std::int64_t n) {
    const auto part = [&](const at::Tensor& all) { return all.narrow(0, first, n); };
    const at::Tensor p = causal_probabilities(part(q), part(tokens.k), q_position, part(position),
                                              scores.of_heads(first * group, n * group));
    const at::Tensor observer = part(is_observer);
    return observation_.group_max ? pool(p.amax(1).sum(1).masked_fill_(observer, 0), observation_)
                                  : pool(p.mean(2).masked_fill_(observer.unsqueeze(1), 0), observation_).mean(1);
  };
  return by_blocks(rows, group * n_queries * tokens.most(), q.device(), of_rows)
      .masked_fill_(is_observer, 0)
      .view(tokens.position.sizes());
}

}  // namespace kvscope::engine
