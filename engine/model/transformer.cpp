#include "engine/model/transformer.h"

#include <c10/core/InferenceMode.h>

#include "engine/model/decoder_layer.h"
#include "engine/model/expert_mlp.h"
#include "engine/model/ops.h"

namespace kvscope::engine {
namespace {

/// What a pass of whole tensors computes of a layer (decoder_layer.h). Writes to `x` in place.
class PromptLayer {
 public:
  PromptLayer(const ModelConfig& config, const Weights& weights, int index, at::Tensor& x, const at::Tensor& positions,
              bool keeps_unrotated)
      : config_(config),
        layer_(config.layers[static_cast<std::size_t>(index)]),
        weights_(weights.layers[static_cast<std::size_t>(index)]),
        norm_offset_(weights.norm_offset),
        gate_channel_(weights.gate_channel),
        scores_(attention_scores(config, weights, index)),
        x_(x),
        positions_(positions),
        keeps_unrotated_(keeps_unrotated) {}

  const LayerWeights& weights() const { return weights_; }
  const at::Tensor& residual() const { return x_; }
  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) const {
    return ops::rms_norm(x, weight, layer_.norm_eps, norm_offset_);
  }
  at::Tensor without_norm(const at::Tensor& x) const { return x; }

  LayerTokens project_heads(at::Tensor input) const {
    const at::Tensor qkv = ops::linear(input, weights_.qkv_proj, weights_.qkv_bias);
    const std::int64_t q_rows = config_.n_heads * config_.head_dim, kv_rows = config_.n_kv_heads * config_.head_dim;
    const auto heads = [&](std::int64_t from, std::int64_t rows, int n_heads) {  // [n, n_heads, head_dim]
      return qkv.narrow(1, from, rows).view({qkv.size(0), n_heads, config_.head_dim}).contiguous();
    };
    return {.x = x_,
            .input = std::move(input),
            .q_unrotated = {},
            .k_unrotated = {},
            .q = heads(0, q_rows, config_.n_heads),
            .k = heads(q_rows, kv_rows, config_.n_kv_heads),
            .v = heads(q_rows + kv_rows, kv_rows, config_.n_kv_heads),
            .scores = scores_,
            .window = layer_.window};
  }
  void norm_heads(LayerTokens& tokens) const {
    if (layer_.qk_norm == QkNorm::whole) {
      tokens.q = norm(tokens.q.flatten(1), weights_.whole_q_norm).view(tokens.q.sizes());
      tokens.k = norm(tokens.k.flatten(1), weights_.whole_k_norm).view(tokens.k.sizes());
      return;
    }
    tokens.q = norm(tokens.q, weights_.q_norm);
    tokens.k = norm(tokens.k, weights_.k_norm);
  }
  void rotate(LayerTokens& tokens) const {
    if (keeps_unrotated_) {
      tokens.q_unrotated = tokens.q.clone();
      tokens.k_unrotated = tokens.k.clone();
    }
    clear_gate(tokens.q);
    ops::rope_(tokens.q, positions_, weights_.inv_freq, weights_.attention_scaling);
    ops::rope_(tokens.k, positions_, weights_.inv_freq, weights_.attention_scaling);
    clear_gate(tokens.q);
  }

  at::Tensor project_out(const at::Tensor& attended) const {
    return ops::linear(attended.view({attended.size(0), -1}), weights_.o_proj, weights_.o_bias);
  }
  at::Tensor project(const at::Tensor& x, const at::Tensor& matrix) const { return ops::linear(x, matrix); }
  at::Tensor gated(const at::Tensor& n) const { return ops::glu(ops::linear(n, weights_.gate_up), layer_.activation); }
  at::Tensor experts(const at::Tensor& n) const { return expert_mlp(n, weights_, layer_.experts, layer_.activation); }
  void add(const at::Tensor& branch) { x_.add_(branch); }

 private:
  /// DMS spends this channel of a group's first query head on its gate: attention must not see it.
  void clear_gate(const at::Tensor& q) const {
    if (gate_channel_ < 0) return;
    q.view({q.size(0), config_.n_kv_heads, config_.group_size(), config_.head_dim})
        .select(2, 0)
        .select(2, gate_channel_)
        .zero_();
  }

  const ModelConfig& config_;
  const LayerConfig& layer_;
  const LayerWeights& weights_;
  float norm_offset_;
  int gate_channel_;
  AttentionScores scores_;
  at::Tensor& x_;
  const at::Tensor& positions_;
  bool keeps_unrotated_;
};

}  // namespace

ForwardPass::ForwardPass(const ModelConfig& config, const Weights& weights, const at::Tensor& ids,
                         std::int64_t first_position, AttentionHook& attention)
    : config_(config), weights_(weights), attention_(attention) {
  const c10::InferenceMode no_gradients;
  positions_ = at::arange(first_position, first_position + ids.size(0),
                          at::TensorOptions().device(weights.device).dtype(at::kInt));
  x_ = at::embedding(weights.embed, ids);
  if (weights.embed_scale != 1) x_.mul_(weights.embed_scale);
}

void ForwardPass::begin_layer() {
  const c10::InferenceMode no_gradients;
  PromptLayer operations(config_, weights_, index_, x_, positions_, attention_.reads_unrotated());
  tokens_ = before_attention(config_.layers[static_cast<std::size_t>(index_)], operations);
  attention_.prepare(index_, tokens_);
}

bool ForwardPass::end_layer() {
  const c10::InferenceMode no_gradients;
  const at::Tensor attended = attention_.attend(index_, tokens_);
  tokens_ = {};
  if (!attended.defined()) {
    x_ = at::Tensor();
    return false;
  }
  PromptLayer operations(config_, weights_, index_, x_, positions_, false);
  after_attention(config_.layers[static_cast<std::size_t>(index_)], operations, attended);
  return ++index_ < config_.n_layers;
}

at::Tensor ForwardPass::hidden() const {
  const c10::InferenceMode no_gradients;
  return x_.defined() ? ops::rms_norm(x_, weights_.final_norm, config_.rms_norm_eps, weights_.norm_offset)
                      : at::Tensor();
}

at::Tensor forward(const ModelConfig& config, const Weights& weights, const at::Tensor& ids,
                   std::int64_t first_position, AttentionHook& attention) {
  ForwardPass pass(config, weights, ids, first_position, attention);
  do pass.begin_layer();
  while (pass.end_layer());
  return pass.hidden();
}

at::Tensor logits_of(const Weights& weights, const at::Tensor& hidden) {
  const c10::InferenceMode no_gradients;
  return ops::linear(hidden, weights.lm_head).to(at::kFloat);
}

at::Tensor ids_tensor(const Weights& weights, const std::int32_t* ids, std::int64_t n) {
  const c10::InferenceMode no_gradients;
  return at::from_blob(const_cast<std::int32_t*>(ids), {n}, at::kInt).to(at::kLong).to(weights.device);
}

}  // namespace kvscope::engine
