#include "engine/jobs/train/qwen3_module.h"

#include <ATen/ATen.h>

#include <cmath>

#include "engine/core/support/random.h"

namespace kvscope::engine {
namespace {

std::string weight_of(const char* name) { return std::string(name) + ".weight"; }

std::vector<FlatParameters::Spec> parameter_specs(const ModelConfig& c) {
  const std::int64_t hidden = c.hidden_size, q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
  const std::int64_t ffn = c.intermediate_size;
  const TensorNames& names = c.family->names;
  std::vector<FlatParameters::Spec> specs = {{weight_of(names.embedding), {c.vocab_size, hidden}, false},
                                             {weight_of(names.final_norm), {hidden}, false}};
  for (int i = 0; i < c.n_layers; ++i) {
    const auto add = [&](const char* part, std::vector<std::int64_t> shape) {
      const bool decayed = shape.size() == 2;
      specs.push_back({names.in_layer(i, part), std::move(shape), decayed});
    };
    add(names.input_norm, {hidden});
    add(names.q, {q, hidden});
    add(names.k, {kv, hidden});
    add(names.v, {kv, hidden});
    add(names.o, {hidden, q});
    add(names.q_norm, {c.head_dim});
    add(names.k_norm, {c.head_dim});
    add(names.post_norm, {hidden});
    add(names.gate, {ffn, hidden});
    add(names.up, {ffn, hidden});
    add(names.down, {hidden, ffn});
  }
  return specs;
}

}  // namespace

Qwen3Module::Qwen3Module(const ModelConfig& config, at::Device device, at::ScalarType compute_type)
    : config_(config),
      compute_type_(compute_type),
      parameters_(parameter_specs(config), device, compute_type),
      rotary_(RotaryTable::make(config.max_positions, config.head_dim, config.layers.front().rope_theta, device)) {
  const TensorNames& names = config.family->names;
  embedding_ = parameters_[weight_of(names.embedding)];
  final_norm_ = parameters_[weight_of(names.final_norm)];
  for (int i = 0; i < config.n_layers; ++i) {
    const auto get = [&](const char* part) { return parameters_[names.in_layer(i, part)]; };
    layers_.push_back({get(names.input_norm), get(names.q), get(names.k), get(names.v), get(names.o), get(names.q_norm),
                       get(names.k_norm), get(names.post_norm), get(names.gate), get(names.up), get(names.down)});
  }
}

void Qwen3Module::initialise(std::uint64_t seed) {
  const double into_residual = 1 / std::sqrt(2.0 * config_.n_layers);
  const TensorNames& names = config_.family->names;
  std::uint64_t stream = 0;
  for (const auto& spec : parameters_.specs()) {
    at::Tensor values = at::ones(spec.shape, at::kFloat);
    if (spec.shape.size() == 2) {
      double deviation =
          spec.name == weight_of(names.embedding) ? 0.02 : 1 / std::sqrt(static_cast<double>(spec.shape[1]));
      if (spec.name.ends_with(weight_of(names.o)) || spec.name.ends_with(weight_of(names.down)))
        deviation *= into_residual;
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

at::Tensor Qwen3Module::norm(const at::Tensor& x, const at::Tensor& gain, float eps) const {
  return at::rms_norm(x.to(compute_type_), {config_.hidden_size}, gain, eps);
}

at::Tensor Qwen3Module::embed(const at::Tensor& ids) const { return at::embedding(embedding_, ids).to(at::kFloat); }

Qwen3Module::Heads Qwen3Module::project(int layer, const at::Tensor& x) const {
  const Layer& w = layers_[static_cast<std::size_t>(layer)];
  const float eps = config_.layers[static_cast<std::size_t>(layer)].norm_eps;
  const auto n_batch = x.size(0), n_positions = x.size(1);
  const at::Tensor h = norm(x, w.input_norm, eps);
  const auto heads = [&](const at::Tensor& weight, int n) {
    return at::linear(h, weight).view({n_batch, n_positions, n, config_.head_dim});
  };
  return {norm_rope(heads(w.q_proj, config_.n_heads), w.q_norm, rotary_, eps),
          norm_rope(heads(w.k_proj, config_.n_kv_heads), w.k_norm, rotary_, eps), heads(w.v_proj, config_.n_kv_heads)};
}

at::Tensor Qwen3Module::finish(int layer, const at::Tensor& x, const at::Tensor& attention) const {
  const Layer& w = layers_[static_cast<std::size_t>(layer)];
  const at::Tensor y = x + at::linear(attention, w.o_proj);
  const at::Tensor h = norm(y, w.post_norm, config_.layers[static_cast<std::size_t>(layer)].norm_eps);
  return y + at::linear(at::silu(at::linear(h, w.gate_proj)) * at::linear(h, w.up_proj), w.down_proj);
}

at::Tensor Qwen3Module::hidden(const at::Tensor& ids) const {
  at::Tensor x = embed(ids);
  for (int i = 0; i < config_.n_layers; ++i) {
    const Heads heads = project(i, x);
    const at::Tensor attention = at::scaled_dot_product_attention(
        heads.q.transpose(1, 2), heads.k.transpose(1, 2), heads.v.transpose(1, 2), /*attn_mask=*/{}, /*dropout_p=*/0,
        /*is_causal=*/true, config_.attention_scale(i), /*enable_gqa=*/config_.n_heads != config_.n_kv_heads);
    x = finish(i, x, attention.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
  }
  return norm(x, final_norm_, config_.rms_norm_eps);
}

}  // namespace kvscope::engine
