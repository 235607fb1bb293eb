#include "tests/support/model_folder.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "kernels/bfloat16.h"
#include "tests/support/folders.h"

namespace kvscope::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using NamedShape = std::pair<std::string, std::vector<std::int64_t>>;

std::uint64_t fnv1a64(const std::string& text) {
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

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

std::vector<std::byte> bytes_of(const std::vector<float>& values, TensorType type) {
  std::vector<std::byte> bytes;
  for (const float x : values) {
    if (type == TensorType::f32) append(bytes, x);
    if (type == TensorType::bf16) append(bytes, kernels::to_bfloat16(x).bits);
    if (type == TensorType::f16) append(bytes, static_cast<_Float16>(x));
  }
  return bytes;
}

std::string shard_name(int shard, int n_shards) {
  if (n_shards == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", shard + 1, n_shards);
  return name;
}

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

}  // namespace

json small_model_config(const std::string& architecture) {
  json config = {{"architectures", {architecture}},
                 {"vocab_size", 4096},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 16},
                 {"max_position_embeddings", 512},
                 {"rms_norm_eps", 1e-6},
                 {"rope_theta", 10000.0},
                 {"tie_word_embeddings", true},
                 {"torch_dtype", "float32"},
                 {"eos_token_id", 0}};
  const ModelFamily& family = *find_family(architecture);
  if (family.layer.mlp != MlpKind::experts) return config;
  config.update({{"num_experts_per_tok", 2}});
  if (family.names.turned_experts) {
    config.update({{"num_local_experts", 3}, {"intermediate_size", 32}});
  } else {
    config.update({{"num_experts", 3}, {"moe_intermediate_size", 24}});
  }
  return config;
}

namespace {

/// Of a layer, as published files have them: a tensor a matrix and expert, or one of all experts, turned.
void add_experts(const ModelConfig& c, int layer, std::vector<NamedShape>& out) {
  const ExpertConfig& experts = c.layers[static_cast<std::size_t>(layer)].experts;
  const TensorNames& names = c.family->names;
  out.push_back({names.in_layer(layer, names.router), {experts.n, c.hidden_size}});
  if (names.turned_experts) {
    const std::string all = names.in_layer(layer, names.experts, ".");
    out.push_back({names.in_layer(layer, names.router, ".bias"), {experts.n}});
    out.push_back({all + "gate_up_proj", {experts.n, c.hidden_size, 2 * experts.intermediate}});
    out.push_back({all + "gate_up_proj_bias", {experts.n, 2 * experts.intermediate}});
    out.push_back({all + "down_proj", {experts.n, experts.intermediate, c.hidden_size}});
    out.push_back({all + "down_proj_bias", {experts.n, c.hidden_size}});
    return;
  }
  for (int i = 0; i < experts.n; ++i) {
    const std::string expert = names.in_layer(layer, names.experts, ".") + std::to_string(i);
    out.push_back({expert + ".gate_proj.weight", {experts.intermediate, c.hidden_size}});
    out.push_back({expert + ".up_proj.weight", {experts.intermediate, c.hidden_size}});
    out.push_back({expert + ".down_proj.weight", {c.hidden_size, experts.intermediate}});
  }
}

}  // namespace

std::vector<NamedShape> tensor_shapes(const ModelConfig& c) {
  const std::int64_t hidden = c.hidden_size, ff = c.intermediate_size, q = c.n_heads * c.head_dim,
                     kv = c.n_kv_heads * c.head_dim;
  const TensorNames& names = c.family->names;
  const auto weight = [](const char* name) { return std::string(name) + ".weight"; };
  std::vector<NamedShape> out = {{weight(names.embedding), {c.vocab_size, hidden}},
                                 {weight(names.final_norm), {hidden}}};
  if (!c.tie_word_embeddings) out.push_back({weight(names.lm_head), {c.vocab_size, hidden}});
  for (int i = 0; i < c.n_layers; ++i) {
    const LayerConfig& layer = c.layers[static_cast<std::size_t>(i)];
    const auto add = [&](const char* part, std::vector<std::int64_t> shape, const char* kind = ".weight") {
      out.push_back({names.in_layer(i, part, kind), std::move(shape)});
    };
    if (layer.norms != NormPlacement::after) {
      add(names.input_norm, {hidden});
      add(names.post_norm, {hidden});
    }
    if (layer.norms != NormPlacement::before) {
      add(names.attention_out_norm, {hidden});
      add(names.mlp_out_norm, {hidden});
    }
    using Rows = std::pair<const char*, std::int64_t>;
    const std::vector<Rows> projections = names.qkv ? std::vector<Rows>{{names.qkv, q + 2 * kv}}
                                                    : std::vector<Rows>{{names.q, q}, {names.k, kv}, {names.v, kv}};
    for (const auto& [name, rows] : projections) {
      add(name, {rows, hidden});
      if (layer.qkv_bias) add(name, {rows}, ".bias");
    }
    const bool whole = layer.qk_norm == QkNorm::whole;
    if (layer.qk_norm != QkNorm::none) add(names.q_norm, {whole ? q : c.head_dim});
    if (layer.qk_norm != QkNorm::none) add(names.k_norm, {whole ? kv : c.head_dim});
    if (layer.attention.has_sink) add(names.sink, {c.n_heads}, "");
    add(names.o, {hidden, q});
    if (layer.o_bias) add(names.o, {hidden}, ".bias");
    if (layer.mlp == MlpKind::experts) {
      add_experts(c, i, out);
      continue;
    }
    if (names.gate_up) {
      add(names.gate_up, {2 * ff, hidden});
    } else {
      add(names.gate, {ff, hidden});
      add(names.up, {ff, hidden});
    }
    add(names.down, {hidden, ff});
  }
  return out;
}

std::vector<float> formula_tensor(const std::string& name, const std::vector<std::int64_t>& shape, std::uint64_t seed) {
  const bool is_vector = shape.size() == 1, is_norm = is_vector && !name.ends_with("bias");
  const bool is_embedding = name == "model.embed_tokens.weight";
  const float matrix = static_cast<float>(std::sqrt(3.0 / static_cast<double>(shape.back())));
  const float scale = is_norm ? 0.1f : is_vector || is_embedding ? 1.0f : matrix;
  std::size_t n = 1;
  for (const std::int64_t size : shape) n *= static_cast<std::size_t>(size);
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = static_cast<float>(splitmix64(fnv1a64(name) + seed + i) >> 40);
    out[i] = (is_norm ? 1.0f : 0.0f) + scale * (bits * 0x1p-23f - 1.0f);
  }
  return out;
}

void write_model_folder(const fs::path& folder, const json& config, std::uint64_t seed,
                        const ModelFolderOptions& options) {
  fs::create_directories(folder);
  write_text(folder / "config.json", config.dump(1));
  fs::copy_file(in_source("samples/models/kvscope-tiny/tokenizer.json"), folder / "tokenizer.json",
                fs::copy_options::overwrite_existing);
  const std::vector<NamedShape> tensors = tensor_shapes(ModelConfig::load(folder));
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::vector<TensorToWrite>> shards(static_cast<std::size_t>(options.n_shards));
  json map = json::object();
  for (const auto& [name, shape] : tensors) bytes.push_back(bytes_of(formula_tensor(name, shape, seed), options.type));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto shard = i % shards.size();
    shards[shard].push_back({tensors[i].first, options.type, tensors[i].second, bytes[i]});
    map[tensors[i].first] = shard_name(static_cast<int>(shard), options.n_shards);
  }
  for (int shard = 0; shard < options.n_shards; ++shard) {
    write_safetensors(folder / shard_name(shard, options.n_shards), shards[static_cast<std::size_t>(shard)],
                      {{"format", "pt"}});
  }
  if (options.n_shards == 1) return;
  const json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", map}};
  write_text(folder / "model.safetensors.index.json", index.dump(1));
}

}  // namespace kvscope::test
