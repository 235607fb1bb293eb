// After Qwen3 (Yang et al., 2025), Qwen2 (Yang et al., 2024) and Llama 3 (Dubey et al., 2024); in transformers:
// modeling_qwen3.py, modeling_qwen2.py, modeling_llama.py.
//
//     h = x + o_proj(attention(rope(norm(q)), rope(norm(k)), v))     q, k, v of rms_norm(x)
//     y = h + down(silu(gate(n)) * up(n))                            n = rms_norm(h)
//
// What a layer has beside that, norms of q and k per head or a bias of q, k and v, its LayerConfig says.
//
// The same arithmetic stands twice more, each time for a reason: engine/decode/decode_step.cpp fuses it into six
// launches for one token, engine/jobs/train/decoder_module.cpp keeps what gradients need.
#include "engine/model/transformer.h"

#include <c10/core/InferenceMode.h>

#include "engine/model/ops.h"

namespace kvscope::engine {
namespace {

at::Tensor attention_block(const ModelConfig& config, const Weights& weights, int index, const at::Tensor& x,
                           const at::Tensor& positions, AttentionHook& attention) {
  const LayerWeights& layer = weights.layers[index];
  const float eps = config.layers[index].norm_eps;
  const std::int64_t n = x.size(0), q_rows = config.n_heads * config.head_dim,
                     kv_rows = config.n_kv_heads * config.head_dim;
  LayerTokens tokens{.x = x, .input = ops::rms_norm(x, layer.input_norm, eps)};
  const at::Tensor qkv = ops::linear(tokens.input, layer.qkv_proj, layer.qkv_bias);
  const auto heads = [&](std::int64_t from, std::int64_t rows, int n_heads) {  // [n, n_heads, head_dim]
    return qkv.narrow(1, from, rows).view({n, n_heads, config.head_dim}).contiguous();
  };
  at::Tensor q = heads(0, q_rows, config.n_heads), k = heads(q_rows, kv_rows, config.n_kv_heads);
  tokens.v = heads(q_rows + kv_rows, kv_rows, config.n_kv_heads);
  if (layer.q_norm.defined()) {
    q = ops::rms_norm(q, layer.q_norm, eps);
    k = ops::rms_norm(k, layer.k_norm, eps);
  }
  if (attention.reads_unrotated()) {
    tokens.q_unrotated = q.clone();
    tokens.k_unrotated = k.clone();
  }
  // DMS spends this channel of a group's first query head on its gate: attention must not see it.
  const auto clear_gate = [&] {
    if (weights.gate_channel >= 0) {
      q.view({n, config.n_kv_heads, config.group_size(), config.head_dim})
          .select(2, 0)
          .select(2, weights.gate_channel)
          .zero_();
    }
  };
  clear_gate();
  ops::rope_(q, positions, layer.inv_freq, layer.attention_scaling);
  ops::rope_(k, positions, layer.inv_freq, layer.attention_scaling);
  clear_gate();
  tokens.q = q;
  tokens.k = k;
  tokens.scale = config.attention_scale(index);
  tokens.window = config.layers[index].window;
  const at::Tensor o = attention.attend(index, tokens);
  return o.defined() ? ops::linear(o.view({n, q_rows}), layer.o_proj) : o;
}

at::Tensor mlp_block(const LayerWeights& layer, float eps, const at::Tensor& x) {
  const at::Tensor gate_up = ops::linear(ops::rms_norm(x, layer.post_norm, eps), layer.gate_up);
  return ops::linear(ops::swiglu(gate_up), layer.down);
}

}  // namespace

at::Tensor forward(const ModelConfig& config, const Weights& weights, const at::Tensor& ids,
                   std::int64_t first_position, AttentionHook& attention) {
  const c10::InferenceMode no_gradients;
  const std::int64_t n = ids.size(0);
  const at::Tensor positions =
      at::arange(first_position, first_position + n, at::TensorOptions().device(weights.device).dtype(at::kInt));
  at::Tensor x = at::embedding(weights.embed, ids);
  for (int index = 0; index < config.n_layers; ++index) {
    const at::Tensor attended = attention_block(config, weights, index, x, positions, attention);
    if (!attended.defined()) return {};
    x.add_(attended);
    x.add_(mlp_block(weights.layers[index], config.layers[index].norm_eps, x));
  }
  return ops::rms_norm(x, weights.final_norm, config.rms_norm_eps);
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
