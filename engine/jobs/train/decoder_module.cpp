#include "engine/jobs/train/decoder_module.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "engine/core/files/weights/kernel_limits.h"
#include "engine/core/support/error.h"
#include "engine/model/decoder_layer.h"

namespace kvscope::engine {
namespace {

std::string weight_of(const char* name) { return std::string(name) + ".weight"; }

std::vector<FlatParameters::Spec> parameter_specs(const ModelConfig& c) {
  const std::int64_t hidden = c.hidden_size, q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
  const std::int64_t ffn = c.intermediate_size;
  const TensorNames& names = c.family->names;
  std::vector<FlatParameters::Spec> specs = {{weight_of(names.embedding), {c.vocab_size, hidden}, false},
                                             {weight_of(names.final_norm), {hidden}, false}};
  if (!c.tie_word_embeddings) specs.push_back({weight_of(names.lm_head), {c.vocab_size, hidden}, true});
  for (int i = 0; i < c.n_layers; ++i) {
    const LayerConfig& layer = c.layers[static_cast<std::size_t>(i)];
    const auto add = [&](const char* part, std::vector<std::int64_t> shape, const char* kind = ".weight") {
      const bool decayed = shape.size() == 2;
      specs.push_back({names.in_layer(i, part, kind), std::move(shape), decayed});
    };
    if (layer.norms != NormPlacement::after) add(names.input_norm, {hidden});
    add(names.q, {q, hidden});
    add(names.k, {kv, hidden});
    add(names.v, {kv, hidden});
    add(names.o, {hidden, q});
    if (layer.o_bias) add(names.o, {hidden}, ".bias");
    if (layer.qkv_bias) {
      add(names.q, {q}, ".bias");
      add(names.k, {kv}, ".bias");
      add(names.v, {kv}, ".bias");
    }
    if (layer.qk_norm != QkNorm::none) {
      const bool whole = layer.qk_norm == QkNorm::whole;
      add(names.q_norm, {whole ? q : c.head_dim});
      add(names.k_norm, {whole ? kv : c.head_dim});
    }
    if (layer.norms != NormPlacement::after) add(names.post_norm, {hidden});
    if (layer.norms != NormPlacement::before) {
      add(names.attention_out_norm, {hidden});
      add(names.mlp_out_norm, {hidden});
    }
    add(names.gate, {ffn, hidden});
    add(names.up, {ffn, hidden});
    add(names.down, {hidden, ffn});
  }
  return specs;
}

}  // namespace

DecoderModule::DecoderModule(const ModelConfig& config, int n_positions, at::Device device, at::ScalarType compute_type,
                             bool trained)
    : config_(config),
      compute_type_(compute_type),
      parameters_(parameter_specs(config), device, compute_type, trained) {
  const auto is_local = [](const LayerConfig& layer) { return layer.window > 0; };
  if (std::ranges::all_of(config.layers, is_local))
    throw Error({.code = ExitCode::usage,
                 .file = "model",
                 .found = "a window in every layer",
                 .expected = "a layer that attends to all tokens, to be trained here"});
  if (config.family->names.qkv != nullptr)
    throw Error({.code = ExitCode::usage,
                 .file = "model",
                 .found = "queries, keys and values of one matrix (" + std::string(config.family->architecture) + ")",
                 .expected = "a model with a matrix for each, to be trained here"});
  check_layers(config, "model");
  require_plain_attention(config, "training");
  require_whole_rotation(config, "training");
  require_no_experts(config, "training");
  const TensorNames& names = config.family->names;
  embedding_ = parameters_[weight_of(names.embedding)];
  output_ = config.tie_word_embeddings ? embedding_ : parameters_[weight_of(names.lm_head)];
  final_norm_ = parameters_[weight_of(names.final_norm)];
  for (int i = 0; i < config.n_layers; ++i) {
    const LayerConfig& layer = config.layers[static_cast<std::size_t>(i)];
    layers_.push_back(layer_of(i));
    const bool as_before = i > 0 && rotates_alike(layer, config.layers[i - 1]);
    layers_.back().rotary =
        as_before ? layers_[i - 1].rotary : RotaryTable::make(n_positions, rotation_of(layer, config.head_dim), device);
  }
}

std::array<std::pair<DecoderModule::Matrix*, const char*>, 7> DecoderModule::matrices_of(Layer& layer,
                                                                                         const TensorNames& names) {
  return {{{&layer.q_proj, names.q},
           {&layer.k_proj, names.k},
           {&layer.v_proj, names.v},
           {&layer.o_proj, names.o},
           {&layer.gate, names.gate},
           {&layer.up, names.up},
           {&layer.down, names.down}}};
}

DecoderModule DecoderModule::adapted(const LoraAdapter& adapter) const {
  DecoderModule out = *this;
  const TensorNames& names = config_.family->names;
  for (int i = 0; i < config_.n_layers; ++i) {
    for (const auto& [matrix, part] : matrices_of(out.layers_[static_cast<std::size_t>(i)], names))
      matrix->change = adapter.of(names.in_layer(i, part));
  }
  out.change_scale_ = adapter.scale();
  return out;
}

at::Tensor DecoderModule::product(const Matrix& matrix, const at::Tensor& x) const {
  const at::Tensor y = at::linear(x, matrix.weight, matrix.bias.defined() ? std::optional(matrix.bias) : std::nullopt);
  if (!matrix.change.a.defined()) return y;
  return y.add(at::linear(at::linear(x, matrix.change.a), matrix.change.b), change_scale_);
}

DecoderModule::Layer DecoderModule::layer_of(int index) const {
  const TensorNames& names = config_.family->names;
  const LayerConfig& layer = config_.layers[static_cast<std::size_t>(index)];
  const auto get = [&](const char* part, const char* kind = ".weight") {
    return parameters_[names.in_layer(index, part, kind)];
  };
  Layer out;
  for (const auto& [matrix, part] : matrices_of(out, names)) matrix->weight = get(part);
  if (layer.o_bias) out.o_proj.bias = get(names.o, ".bias");
  if (layer.qkv_bias) {
    out.q_proj.bias = get(names.q, ".bias");
    out.k_proj.bias = get(names.k, ".bias");
    out.v_proj.bias = get(names.v, ".bias");
  }
  if (layer.qk_norm != QkNorm::none) {
    out.q_norm = get(names.q_norm);
    out.k_norm = get(names.k_norm);
  }
  if (layer.norms != NormPlacement::after) {
    out.input_norm = get(names.input_norm);
    out.post_norm = get(names.post_norm);
  }
  if (layer.norms != NormPlacement::before) {
    out.attention_out_norm = get(names.attention_out_norm);
    out.mlp_out_norm = get(names.mlp_out_norm);
  }
  return out;
}

void DecoderModule::initialise(std::uint64_t seed) {
  const double into_residual = 1 / std::sqrt(2.0 * config_.n_layers);
  const TensorNames& names = config_.family->names;
  parameters_.initialise(seed, [&](const FlatParameters::Spec& spec) -> FlatParameters::Start {
    const double gain = 1 - config_.family->norm_offset;
    if (spec.shape.size() != 2) return {.constant = spec.name.ends_with(".bias") ? 0.0 : gain};
    if (spec.name == weight_of(names.embedding)) return {.deviation = 0.02};
    const double deviation = 1 / std::sqrt(static_cast<double>(spec.shape[1]));
    const bool writes = spec.name.ends_with(weight_of(names.o)) || spec.name.ends_with(weight_of(names.down));
    return {.deviation = writes ? deviation * into_residual : deviation};
  });
}

const at::Tensor& DecoderModule::embedding() const { return embedding_; }
const at::Tensor& DecoderModule::output() const { return output_; }

at::Tensor DecoderModule::norm(const at::Tensor& x, const at::Tensor& gain, double eps) const {
  const float offset = config_.family->norm_offset;
  return at::rms_norm(x.to(compute_type_), {gain.size(0)}, offset == 0 ? gain : gain + offset, eps);
}

at::Tensor DecoderModule::final_norm(const at::Tensor& x) const { return norm(x, final_norm_, config_.rms_norm_eps); }

at::Tensor DecoderModule::embed(const at::Tensor& ids) const {
  const at::Tensor x = at::embedding(embedding_, ids).to(at::kFloat);
  return config_.family->scaled_embedding ? x * std::sqrt(static_cast<double>(config_.hidden_size)) : x;
}

/// What a pass with gradients computes of a layer (engine/model/decoder_layer.h).
class DecoderModule::LayerOps {
 public:
  LayerOps(const DecoderModule& module, int index, at::Tensor x, bool keeps_unrotated = false)
      : module_(module),
        layer_(module.config_.layers[static_cast<std::size_t>(index)]),
        weights_(module.layers_[static_cast<std::size_t>(index)]),
        x_(std::move(x)),
        keeps_unrotated_(keeps_unrotated) {}

  const LayerConfig& layer() const { return layer_; }
  const Layer& weights() const { return weights_; }
  const at::Tensor& residual() const { return x_; }
  at::Tensor norm(const at::Tensor& x, const at::Tensor& gain) const { return module_.norm(x, gain, layer_.norm_eps); }
  at::Tensor without_norm(const at::Tensor& x) const { return x.to(module_.compute_type_); }

  Heads project_heads(const at::Tensor& input) const {
    const auto heads = [&](const Matrix& matrix, int n) {
      return project(input, matrix).view({input.size(0), input.size(1), n, module_.config_.head_dim});
    };
    const int n_kv_heads = module_.config_.n_kv_heads;
    return {.input = input,
            .k_unrotated = {},
            .q = heads(weights_.q_proj, module_.config_.n_heads),
            .k = heads(weights_.k_proj, n_kv_heads),
            .v = heads(weights_.v_proj, n_kv_heads)};
  }
  void norm_heads(Heads& heads) const {
    if (joins_norm()) return;
    const auto normed = [&](const at::Tensor& x, const at::Tensor& gain) {
      return layer_.qk_norm == QkNorm::whole ? norm(x.flatten(-2), gain).view(x.sizes()) : norm(x, gain);
    };
    heads.q = normed(heads.q, weights_.q_norm);
    heads.k = normed(heads.k, weights_.k_norm);
  }
  void rotate(Heads& heads) const {
    if (joins_norm()) {
      heads.q = norm_rope(heads.q, weights_.q_norm, weights_.rotary, layer_.norm_eps);
      heads.k = norm_rope(heads.k, weights_.k_norm, weights_.rotary, layer_.norm_eps);
      return;
    }
    if (keeps_unrotated_) heads.k_unrotated = heads.k;
    heads.q = rope(heads.q, weights_.rotary);
    heads.k = rope(heads.k, weights_.rotary);
  }

  at::Tensor project_out(const at::Tensor& attended) const { return project(attended, weights_.o_proj); }
  at::Tensor project(const at::Tensor& x, const Matrix& matrix) const { return module_.product(matrix, x); }
  at::Tensor gated(const at::Tensor& n) const {
    const at::Tensor gate = project(n, weights_.gate), up = project(n, weights_.up);
    return (layer_.activation == MlpActivation::silu ? at::silu(gate) : at::gelu(gate, "tanh")) * up;
  }
  [[noreturn]] at::Tensor experts(const at::Tensor&) const {
    throw std::logic_error("experts are not trained");  // require_no_experts() refuses such a model
  }
  void add(const at::Tensor& branch) { x_ = x_ + branch; }

 private:
  /// Whether norm and rotation of q and k are one operation, norm_rope().
  bool joins_norm() const {
    return layer_.qk_norm == QkNorm::heads && !keeps_unrotated_ && module_.config_.family->norm_offset == 0;
  }

  const DecoderModule& module_;
  const LayerConfig& layer_;
  const Layer& weights_;
  at::Tensor x_;
  bool keeps_unrotated_;
};

DecoderModule::Heads DecoderModule::project(int layer, const at::Tensor& x) const {
  LayerOps ops(*this, layer, x);
  return before_attention(ops.layer(), ops);
}

DecoderModule::Heads DecoderModule::project_unrotated(int layer, const at::Tensor& x) const {
  LayerOps ops(*this, layer, x, /*keeps_unrotated=*/true);
  return before_attention(ops.layer(), ops);
}

at::Tensor DecoderModule::attend(int layer, const Heads& heads) const {
  const std::int64_t window = config_.layers[static_cast<std::size_t>(layer)].window, n = heads.q.size(1);
  std::optional<at::Tensor> in_window;  // [n, n]: true where the query of a row sees the key of a column
  if (window > 0 && window < n)
    in_window = at::ones({n, n}, heads.q.options().dtype(at::kBool)).tril().triu(1 - window);
  const at::Tensor out = at::scaled_dot_product_attention(
      heads.q.transpose(1, 2), heads.k.transpose(1, 2), heads.v.transpose(1, 2), in_window, /*dropout_p=*/0,
      /*is_causal=*/!in_window, config_.attention_scale(layer), /*enable_gqa=*/config_.n_heads != config_.n_kv_heads);
  return out.transpose(1, 2).reshape({heads.q.size(0), heads.q.size(1), -1});
}

at::Tensor DecoderModule::finish(int layer, const at::Tensor& x, const at::Tensor& attention) const {
  LayerOps ops(*this, layer, x);
  after_attention(ops.layer(), ops, attention);
  return ops.residual();
}

at::Tensor DecoderModule::hidden(const at::Tensor& ids) const {
  at::Tensor x = embed(ids);
  for (int i = 0; i < config_.n_layers; ++i) x = finish(i, x, attend(i, project(i, x)));
  return final_norm(x);
}

}  // namespace kvscope::engine
