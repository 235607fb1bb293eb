#include "engine/jobs/train/qwen3_module.h"

#include <ATen/ATen.h>

#include <cmath>

#include "engine/core/support/random.h"

namespace kvscope::engine {
namespace {

const std::string kEmbedding = "model.embed_tokens.weight";
const std::string kFinalNorm = "model.norm.weight";

std::string layer_name(int layer, const char* part) {
  return "model.layers." + std::to_string(layer) + "." + part + ".weight";
}

std::vector<FlatParameters::Spec> parameter_specs(const ModelConfig& c) {
  const std::int64_t hidden = c.hidden_size, q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
  const std::int64_t ffn = c.intermediate_size;
  std::vector<FlatParameters::Spec> specs = {{kEmbedding, {c.vocab_size, hidden}, false},
                                             {kFinalNorm, {hidden}, false}};
  for (int i = 0; i < c.n_layers; ++i) {
    specs.push_back({layer_name(i, "input_layernorm"), {hidden}, false});
    specs.push_back({layer_name(i, "self_attn.q_proj"), {q, hidden}, true});
    specs.push_back({layer_name(i, "self_attn.k_proj"), {kv, hidden}, true});
    specs.push_back({layer_name(i, "self_attn.v_proj"), {kv, hidden}, true});
    specs.push_back({layer_name(i, "self_attn.o_proj"), {hidden, q}, true});
    specs.push_back({layer_name(i, "self_attn.q_norm"), {c.head_dim}, false});
    specs.push_back({layer_name(i, "self_attn.k_norm"), {c.head_dim}, false});
    specs.push_back({layer_name(i, "post_attention_layernorm"), {hidden}, false});
    specs.push_back({layer_name(i, "mlp.gate_proj"), {ffn, hidden}, true});
    specs.push_back({layer_name(i, "mlp.up_proj"), {ffn, hidden}, true});
    specs.push_back({layer_name(i, "mlp.down_proj"), {hidden, ffn}, true});
  }
  return specs;
}

}  // namespace

Qwen3Module::Qwen3Module(const ModelConfig& config, at::Device device, at::ScalarType compute_type)
    : config_(config),
      compute_type_(compute_type),
      parameters_(parameter_specs(config), device, compute_type),
      rotary_(RotaryTable::make(config.max_positions, config.head_dim, config.rope_theta, device)) {
  embedding_ = parameters_[kEmbedding];
  final_norm_ = parameters_[kFinalNorm];
  for (int i = 0; i < config.n_layers; ++i) {
    const auto get = [&](const char* part) { return parameters_[layer_name(i, part)]; };
    layers_.push_back({get("input_layernorm"), get("self_attn.q_proj"), get("self_attn.k_proj"),
                       get("self_attn.v_proj"), get("self_attn.o_proj"), get("self_attn.q_norm"),
                       get("self_attn.k_norm"), get("post_attention_layernorm"), get("mlp.gate_proj"),
                       get("mlp.up_proj"), get("mlp.down_proj")});
  }
}

void Qwen3Module::initialise(std::uint64_t seed) {
  const double into_residual = 1 / std::sqrt(2.0 * config_.n_layers);
  std::uint64_t stream = 0;
  for (const auto& spec : parameters_.specs()) {
    at::Tensor values = at::ones(spec.shape, at::kFloat);
    if (spec.shape.size() == 2) {
      double deviation = spec.name == kEmbedding ? 0.02 : 1 / std::sqrt(static_cast<double>(spec.shape[1]));
      if (spec.name.ends_with("o_proj.weight") || spec.name.ends_with("down_proj.weight")) deviation *= into_residual;
      Random random(seed, stream);
      float* out = values.data_ptr<float>();
      for (std::int64_t i = 0; i < values.numel(); ++i) out[i] = static_cast<float>(deviation * random.normal());
    }
    parameters_.master(spec.name).copy_(values);
    ++stream;
  }
  parameters_.publish();
}

const at::Tensor& Qwen3Module::embedding() const { return embedding_; }

at::Tensor Qwen3Module::norm(const at::Tensor& x, const at::Tensor& gain) const {
  return at::rms_norm(x.to(compute_type_), {config_.hidden_size}, gain, config_.rms_norm_eps);
}

at::Tensor Qwen3Module::embed(const at::Tensor& ids) const { return at::embedding(embedding_, ids).to(at::kFloat); }

Qwen3Module::Heads Qwen3Module::project(int layer, const at::Tensor& x) const {
  const Layer& w = layers_[static_cast<std::size_t>(layer)];
  const auto n_batch = x.size(0), n_positions = x.size(1);
  const at::Tensor h = norm(x, w.input_norm);
  const auto heads = [&](const at::Tensor& weight, int n) {
    return at::linear(h, weight).view({n_batch, n_positions, n, config_.head_dim});
  };
  return {norm_rope(heads(w.q_proj, config_.n_heads), w.q_norm, rotary_, config_.rms_norm_eps),
          norm_rope(heads(w.k_proj, config_.n_kv_heads), w.k_norm, rotary_, config_.rms_norm_eps),
          heads(w.v_proj, config_.n_kv_heads)};
}

at::Tensor Qwen3Module::finish(int layer, const at::Tensor& x, const at::Tensor& attention) const {
  const Layer& w = layers_[static_cast<std::size_t>(layer)];
  const at::Tensor y = x + at::linear(attention, w.o_proj);
  const at::Tensor h = norm(y, w.post_norm);
  return y + at::linear(at::silu(at::linear(h, w.gate_proj)) * at::linear(h, w.up_proj), w.down_proj);
}

at::Tensor Qwen3Module::hidden(const at::Tensor& ids) const {
  at::Tensor x = embed(ids);
  for (int i = 0; i < config_.n_layers; ++i) {
    const Heads heads = project(i, x);
    const at::Tensor attention = at::scaled_dot_product_attention(
        heads.q.transpose(1, 2), heads.k.transpose(1, 2), heads.v.transpose(1, 2), /*attn_mask=*/{}, /*dropout_p=*/0,
        /*is_causal=*/true, /*scale=*/std::nullopt, /*enable_gqa=*/config_.n_heads != config_.n_kv_heads);
    x = finish(i, x, attention.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
  }
  return norm(x, final_norm_);
}

}  // namespace kvscope::engine
