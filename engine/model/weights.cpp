#include "engine/model/weights.h"

#include <cmath>

#include "engine/core/files/weights/kernel_limits.h"
#include "engine/core/files/weights/mxfp4.h"

namespace kvscope::engine {
namespace {

using NamedShape = std::pair<std::string, std::vector<std::int64_t>>;  // name, shape

/// Collects which tensors of the checkpoint make which of the model; takes memory only when all of them are there.
class Plan {
 public:
  /// One tensor, or matrices under each other, or vectors behind each other: [sum of rows, ...].
  void add(at::Tensor& out, std::vector<NamedShape> parts) { fused_.push_back({&out, std::move(parts)}); }

  void execute(WeightReader& reader, Weights& weights) const {
    for (const Fused& fused : fused_) {
      for (const auto& [name, shape] : fused.parts) reader.check(name, shape);
    }
    std::vector<TensorTarget> targets;
    for (const Fused& fused : fused_) {
      std::vector<std::int64_t> shape = fused.parts.front().second;
      shape[0] = 0;
      for (const NamedShape& part : fused.parts) shape[0] += part.second[0];
      *fused.out = at::empty(shape, at::TensorOptions().device(weights.device).dtype(weights.dtype));
      weights.n_parameters += fused.out->numel();
      std::int64_t row = 0;
      for (const auto& [name, part_shape] : fused.parts) {
        targets.push_back({name, part_shape, fused.out->narrow(0, row, part_shape[0])});
        row += part_shape[0];
      }
    }
    reader.read(targets);
  }

 private:
  struct Fused {
    at::Tensor* out;
    std::vector<NamedShape> parts;
  };
  std::vector<Fused> fused_;
};

/// A layer's experts: one tensor of each matrix of each expert, as published files have them, or one of all experts, as
/// transformers 5 writes them.
void plan_experts(const ModelConfig& config, int index, const WeightReader& reader, LayerWeights& out, Plan& plan) {
  const TensorNames& names = config.family->names;
  const ExpertConfig& experts = config.layers[static_cast<std::size_t>(index)].experts;
  const std::int64_t n = experts.n, hidden = config.hidden_size, ff = experts.intermediate;
  plan.add(out.router, {{names.in_layer(index, names.router), {n, hidden}}});
  const std::string all = names.in_layer(index, names.experts, ".");
  if (reader.has(all + "gate_up_proj")) {
    plan.add(out.gate_up, {{all + "gate_up_proj", {n, 2 * ff, hidden}}});
    plan.add(out.down, {{all + "down_proj", {n, hidden, ff}}});
    return;
  }
  std::vector<NamedShape> gate_up, down;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::string one = all + std::to_string(i);
    gate_up.push_back({one + ".gate_proj.weight", {ff, hidden}});
    gate_up.push_back({one + ".up_proj.weight", {ff, hidden}});
    down.push_back({one + ".down_proj.weight", {hidden, ff}});
  }
  plan.add(out.gate_up, std::move(gate_up));
  plan.add(out.down, std::move(down));
}

/// The experts of a family with TensorNames::turned_experts, as its files have them: turn_experts() lays them out.
void plan_turned_experts(const ModelConfig& config, int index, const WeightReader& reader, LayerWeights& out,
                         Plan& plan) {
  const TensorNames& names = config.family->names;
  const ExpertConfig& experts = config.layers[static_cast<std::size_t>(index)].experts;
  const std::int64_t n = experts.n, hidden = config.hidden_size, ff = experts.intermediate;
  const std::string all = names.in_layer(index, names.experts, ".");
  const auto add = [&](at::Tensor& matrix, at::Tensor& bias, const char* part, std::int64_t rows,
                       std::int64_t columns) {
    const std::string name = all + part, packed = name + kPackedSuffix;
    if (reader.has(packed)) {
      plan.add(matrix, {{packed, {n, rows, columns}}});
    } else {
      plan.add(matrix, {{name, {n, columns, rows}}});
    }
    if (experts.biased) plan.add(bias, {{name + "_bias", {n, rows}}});
  };
  plan.add(out.router, {{names.in_layer(index, names.router), {n, hidden}}});
  if (experts.biased) plan.add(out.router_bias, {{names.in_layer(index, names.router, ".bias"), {n}}});
  add(out.gate_up, out.gate_up_bias, "gate_up_proj", 2 * ff, hidden);
  add(out.down, out.down_bias, "down_proj", hidden, ff);
}

/// Rows of gate and up by turns, [n, 2 ff, ...], become those of gate and then those of up.
at::Tensor gate_then_up(const at::Tensor& by_turns) {
  return by_turns.unflatten(1, {-1, 2}).transpose(1, 2).contiguous().view(by_turns.sizes());
}

/// The matrices of plan_turned_experts() as LayerWeights has them, a layer at a time: each is copied once.
void turn_experts(const ModelConfig& config, int index, const WeightReader& reader, LayerWeights& layer) {
  const TensorNames& names = config.family->names;
  const auto rows_first = [&](const at::Tensor& matrices, const char* part) {
    const bool is_packed = reader.has(names.in_layer(index, names.experts, ".") + part + kPackedSuffix);
    return is_packed ? matrices : matrices.transpose(1, 2);
  };
  layer.gate_up = gate_then_up(rows_first(layer.gate_up, "gate_up_proj"));
  layer.down = rows_first(layer.down, "down_proj").contiguous();
  if (layer.gate_up_bias.defined()) layer.gate_up_bias = gate_then_up(layer.gate_up_bias);
}

/// One matrix of each expert, whatever the files have.
void split_experts(const ModelConfig& config, const WeightReader& reader, Weights& weights) {
  for (int i = 0; i < config.n_layers; ++i) {
    const LayerConfig& layer = config.layers[static_cast<std::size_t>(i)];
    LayerWeights& out = weights.layers[static_cast<std::size_t>(i)];
    if (layer.mlp != MlpKind::experts) continue;
    if (config.family->names.turned_experts) {
      turn_experts(config, i, reader, out);
      continue;
    }
    for (at::Tensor* matrices : {&out.gate_up, &out.down})
      *matrices = matrices->view({layer.experts.n, -1, matrices->size(-1)});
  }
}

void plan_layer(const ModelConfig& config, int index, const WeightReader& reader, LayerWeights& out, Plan& plan) {
  const TensorNames& names = config.family->names;
  const LayerConfig& layer = config.layers[static_cast<std::size_t>(index)];
  const auto part = [&](const char* name, std::vector<std::int64_t> shape, const char* kind = ".weight") {
    return NamedShape{names.in_layer(index, name, kind), std::move(shape)};
  };
  const std::int64_t hidden = config.hidden_size, head_dim = config.head_dim, ff = config.intermediate_size;
  const std::int64_t q_rows = config.n_heads * head_dim, kv_rows = config.n_kv_heads * head_dim;
  if (layer.norms != NormPlacement::after) plan.add(out.input_norm, {part(names.input_norm, {hidden})});
  if (names.qkv != nullptr) {
    plan.add(out.qkv_proj, {part(names.qkv, {q_rows + 2 * kv_rows, hidden})});
  } else {
    plan.add(out.qkv_proj,
             {part(names.q, {q_rows, hidden}), part(names.k, {kv_rows, hidden}), part(names.v, {kv_rows, hidden})});
  }
  if (layer.qkv_bias) {
    plan.add(out.qkv_bias,
             {part(names.q, {q_rows}, ".bias"), part(names.k, {kv_rows}, ".bias"), part(names.v, {kv_rows}, ".bias")});
  }
  if (layer.qk_norm != QkNorm::none) {
    const bool whole = layer.qk_norm == QkNorm::whole;
    plan.add(whole ? out.whole_q_norm : out.q_norm, {part(names.q_norm, {whole ? q_rows : head_dim})});
    plan.add(whole ? out.whole_k_norm : out.k_norm, {part(names.k_norm, {whole ? kv_rows : head_dim})});
  }
  if (layer.attention.has_sink) plan.add(out.sink, {part(names.sink, {config.n_heads}, "")});
  plan.add(out.o_proj, {part(names.o, {hidden, q_rows})});
  if (layer.o_bias) plan.add(out.o_bias, {part(names.o, {hidden}, ".bias")});
  if (layer.norms != NormPlacement::after) plan.add(out.post_norm, {part(names.post_norm, {hidden})});
  if (layer.norms != NormPlacement::before) {
    plan.add(out.attention_out_norm, {part(names.attention_out_norm, {hidden})});
    plan.add(out.mlp_out_norm, {part(names.mlp_out_norm, {hidden})});
  }
  if (layer.mlp == MlpKind::experts) {
    (names.turned_experts ? plan_turned_experts : plan_experts)(config, index, reader, out, plan);
    return;
  }
  if (names.gate_up != nullptr) {
    plan.add(out.gate_up, {part(names.gate_up, {2 * ff, hidden})});
  } else {
    plan.add(out.gate_up, {part(names.gate, {ff, hidden}), part(names.up, {ff, hidden})});
  }
  plan.add(out.down, {part(names.down, {hidden, ff})});
}

/// Rotations of all layers; those alike share their tensor.
void set_rotations(const ModelConfig& config, Weights& weights) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    LayerWeights& out = weights.layers[i];
    if (i > 0 && rotates_alike(layer, config.layers[i - 1])) {
      out.inv_freq = weights.layers[i - 1].inv_freq;
      out.attention_scaling = weights.layers[i - 1].attention_scaling;
      continue;
    }
    const RopeFrequencies rope = rotation_of(layer, config.head_dim);
    out.inv_freq = at::tensor(rope.inv_freq, at::kFloat).to(weights.device);
    out.attention_scaling = rope.attention_scaling;
  }
}

/// Brings the channels of queries and keys into the order in which kernels turn them.
void order_channels(const ModelConfig& config, Weights& weights) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const std::vector<std::int64_t> order = channel_order(config.layers[i], config.head_dim);
    if (order.empty()) continue;
    LayerWeights& layer = weights.layers[i];
    const at::Tensor from = at::tensor(order, at::kLong).to(weights.device);
    const std::int64_t n = config.n_heads + config.n_kv_heads;  // q and k come first
    for (at::Tensor* rows : {&layer.qkv_proj, &layer.qkv_bias}) {
      if (!rows->defined()) continue;
      at::Tensor heads = rows->narrow(0, 0, n * config.head_dim).unflatten(0, {n, config.head_dim});
      heads.copy_(heads.index_select(1, from));
    }
    for (at::Tensor* norm : {&layer.q_norm, &layer.k_norm, &layer.whole_q_norm, &layer.whole_k_norm})
      if (norm->defined()) *norm = norm->view({-1, config.head_dim}).index_select(1, from).flatten();
  }
}

/// sqrt(hidden_size) as `dtype` holds it, where the family scales its embedding.
float embed_scale(const ModelConfig& config, at::ScalarType dtype) {
  if (!config.family->scaled_embedding) return 1;
  return at::tensor(std::sqrt(static_cast<double>(config.hidden_size)), at::kFloat).to(dtype).item<float>();
}

/// A source asked for one tensor after the other.
class SourceReader final : public WeightReader {
 public:
  explicit SourceReader(const TensorSource& source) : source_(source) {}
  void check(const std::string&, const std::vector<std::int64_t>&) const override {}
  void read(const std::vector<TensorTarget>& targets) override {
    for (const TensorTarget& target : targets) target.to.copy_(source_(target.name, target.shape));
  }

 private:
  const TensorSource& source_;
};

}  // namespace

kernels::DType kernel_dtype(at::ScalarType dtype) {
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16, "the kernels know float32 and bfloat16, not ", dtype);
  return dtype == at::kFloat ? kernels::DType::f32 : kernels::DType::bf16;
}

AttentionScores attention_scores(const ModelConfig& config, const Weights& weights, int layer) {
  const auto index = static_cast<std::size_t>(layer);
  return {config.attention_scale(layer), config.layers[index].attention.soft_cap, weights.layers[index].sink};
}

Weights build_weights(const ModelConfig& config, WeightReader& reader, c10::Device device, at::ScalarType dtype) {
  check_layers(config, "model");
  Weights weights;
  weights.device = device;
  weights.dtype = dtype;
  weights.layers.resize(static_cast<std::size_t>(config.n_layers));
  const std::int64_t vocab = config.vocab_size, hidden = config.hidden_size;
  const TensorNames& names = config.family->names;
  const auto part = [](const char* name, std::vector<std::int64_t> shape) {
    return NamedShape{std::string(name) + ".weight", std::move(shape)};
  };
  Plan plan;
  plan.add(weights.embed, {part(names.embedding, {vocab, hidden})});
  for (int layer = 0; layer < config.n_layers; ++layer) plan_layer(config, layer, reader, weights.layers[layer], plan);
  plan.add(weights.final_norm, {part(names.final_norm, {hidden})});
  if (!config.tie_word_embeddings) plan.add(weights.lm_head, {part(names.lm_head, {vocab, hidden})});
  plan.execute(reader, weights);
  if (config.tie_word_embeddings) weights.lm_head = weights.embed;
  split_experts(config, reader, weights);
  weights.norm_offset = config.family->norm_offset;
  weights.embed_scale = embed_scale(config, dtype);
  for (LayerWeights& layer : weights.layers) {
    if (layer.sink.defined()) layer.sink = layer.sink.to(at::kFloat);  // as the kernels read it, whatever the dtype
  }
  order_channels(config, weights);
  set_rotations(config, weights);
  return weights;
}

Weights build_weights(const ModelConfig& config, const TensorSource& source, c10::Device device, at::ScalarType dtype) {
  SourceReader reader(source);
  return build_weights(config, reader, device, dtype);
}

}  // namespace kvscope::engine
