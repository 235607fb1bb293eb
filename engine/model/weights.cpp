#include "engine/model/weights.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <string_view>

namespace kvscope::engine {
namespace {

/// Collects tensors of the checkpoint into the fused ones on the device.
class Builder {
 public:
  Builder(const TensorSource& source, Weights& weights) : source_(source), weights_(weights) {}

  at::Tensor one(const std::string& name, std::vector<std::int64_t> shape) {
    return stacked({{name, std::move(shape)}});
  }

  /// Matrices under each other: [sum of rows, columns]. Each is sent to the device on its own, so that host memory
  /// holds one tensor at a time.
  at::Tensor stacked(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& parts) {
    std::int64_t rows = 0;
    for (const auto& [name, shape] : parts) rows += shape[0];
    std::vector<std::int64_t> shape = parts.front().second;
    shape[0] = rows;
    at::Tensor out = at::empty(shape, at::TensorOptions().device(weights_.device).dtype(weights_.dtype));
    std::int64_t row = 0;
    for (const auto& [name, part_shape] : parts) {
      out.narrow(0, row, part_shape[0]).copy_(source_(name, part_shape));
      row += part_shape[0];
    }
    weights_.n_parameters += out.numel();
    return out;
  }

 private:
  const TensorSource& source_;
  Weights& weights_;
};

LayerWeights build_layer(const ModelConfig& config, Builder& builder, int layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  const std::int64_t hidden = config.hidden_size, head_dim = config.head_dim, ff = config.intermediate_size;
  const std::int64_t q_rows = config.n_heads * head_dim, kv_rows = config.n_kv_heads * head_dim;
  LayerWeights out;
  out.input_norm = builder.one(prefix + "input_layernorm.weight", {hidden});
  out.qkv_proj = builder.stacked({{attention + "q_proj.weight", {q_rows, hidden}},
                                  {attention + "k_proj.weight", {kv_rows, hidden}},
                                  {attention + "v_proj.weight", {kv_rows, hidden}}});
  if (config.qkv_bias) {
    out.qkv_bias = builder.stacked({{attention + "q_proj.bias", {q_rows}},
                                    {attention + "k_proj.bias", {kv_rows}},
                                    {attention + "v_proj.bias", {kv_rows}}});
  }
  if (config.qk_norm) {
    out.q_norm = builder.one(attention + "q_norm.weight", {head_dim});
    out.k_norm = builder.one(attention + "k_norm.weight", {head_dim});
  }
  out.o_proj = builder.one(attention + "o_proj.weight", {hidden, q_rows});
  out.post_norm = builder.one(prefix + "post_attention_layernorm.weight", {hidden});
  out.gate_up = builder.stacked({{mlp + "gate_proj.weight", {ff, hidden}}, {mlp + "up_proj.weight", {ff, hidden}}});
  out.down = builder.one(mlp + "down_proj.weight", {hidden, ff});
  return out;
}

std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

kernels::DType kernel_dtype(at::ScalarType dtype) {
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16, "the kernels know float32 and bfloat16, not ", dtype);
  return dtype == at::kFloat ? kernels::DType::f32 : kernels::DType::bf16;
}

Weights build_weights(const ModelConfig& config, const TensorSource& source, c10::Device device, at::ScalarType dtype) {
  Weights weights;
  weights.device = device;
  weights.dtype = dtype;
  Builder builder(source, weights);
  const std::int64_t vocab = config.vocab_size, hidden = config.hidden_size;
  weights.embed = builder.one("model.embed_tokens.weight", {vocab, hidden});
  for (int layer = 0; layer < config.n_layers; ++layer) weights.layers.push_back(build_layer(config, builder, layer));
  weights.final_norm = builder.one("model.norm.weight", {hidden});
  weights.lm_head = config.tie_word_embeddings ? weights.embed : builder.one("lm_head.weight", {vocab, hidden});
  const RopeFrequencies rope = rope_frequencies(config.rope_theta, config.head_dim, config.rope_scaling);
  weights.inv_freq = at::tensor(rope.inv_freq, at::kFloat).to(device);
  weights.attention_scaling = rope.attention_scaling;
  return weights;
}

TensorSource formula_source(std::uint64_t seed) {
  return [seed](const std::string& name, const std::vector<std::int64_t>& shape) {
    at::Tensor out = at::empty(shape, at::kFloat);
    const bool is_norm = shape.size() == 1 && !name.ends_with("bias"),
               is_embedding = name == "model.embed_tokens.weight";
    const float scale = is_norm ? 0.1f
                        : shape.size() == 1 || is_embedding
                            ? 1.0f
                            : static_cast<float>(std::sqrt(3.0 / static_cast<double>(shape.back())));
    const float offset = is_norm ? 1.0f : 0.0f;
    const std::uint64_t start = fnv1a64(name) + seed;
    float* data = out.data_ptr<float>();
    at::parallel_for(0, out.numel(), 1 << 16, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::uint64_t bits = splitmix64(start + static_cast<std::uint64_t>(i)) >> 40;
        data[i] = offset + scale * (static_cast<float>(bits) * 0x1p-23f - 1.0f);
      }
    });
    return out;
  };
}

}  // namespace kvscope::engine
