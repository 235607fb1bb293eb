#include "engine/core/files/weights/lora_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/core/files/weights/float_values.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "adapter_config.json", kTensors[] = "adapter_model.safetensors";
constexpr std::string_view kBefore = "base_model.model.", kA = ".lora_A.weight", kB = ".lora_B.weight";
constexpr std::size_t kLongestName = 256, kMostWork = 4'000'000;
// Of a layer, in every family (model_family.h). PEFT fails on a target that is none of the matrices.
constexpr std::string_view kMatrices[] = {".self_attn.q_proj", ".self_attn.k_proj", ".self_attn.v_proj",
                                          ".self_attn.o_proj", ".mlp.gate_proj",    ".mlp.up_proj",
                                          ".mlp.down_proj"};
constexpr const char* kOtherParts[] = {".self_attn", ".mlp", ".mlp.act_fn", ".input_layernorm",
                                       ".post_attention_layernorm"};

/// "model.layers.3.mlp.up_proj": what the engine reads of a model, and the head.
bool is_matrix(std::string_view module) {
  constexpr std::string_view kLayers = "model.layers.";
  if (module == "lm_head") return true;
  if (!module.starts_with(kLayers)) return false;
  module.remove_prefix(kLayers.size());
  const std::size_t digits = std::min(module.find_first_not_of("0123456789"), module.size());
  return digits > 0 && std::ranges::find(kMatrices, module.substr(digits)) != std::end(kMatrices);
}

/// Outputs and inputs of one of those; none of a layer that the model does not have.
std::pair<std::int64_t, std::int64_t> sizes_of(const ModelConfig& model, std::string_view module) {
  const auto all = [](int a, int b) { return static_cast<std::int64_t>(a) * b; };
  if (module == "lm_head") return {model.vocab_size, model.hidden_size};
  const std::string layer(module.substr(std::string_view("model.layers.").size()));
  if (std::atoll(layer.c_str()) >= model.n_layers) return {0, 0};
  if (module.ends_with("q_proj")) return {all(model.n_heads, model.head_dim), model.hidden_size};
  if (module.ends_with("o_proj")) return {model.hidden_size, all(model.n_heads, model.head_dim)};
  if (module.ends_with("k_proj") || module.ends_with("v_proj"))
    return {all(model.n_kv_heads, model.head_dim), model.hidden_size};
  if (module.ends_with("down_proj")) return {model.hidden_size, model.intermediate_size};
  return {model.intermediate_size, model.hidden_size};
}

std::string module_of(const std::string& matrix) {
  return matrix.substr(0, matrix.size() - std::string_view(".weight").size());
}

}  // namespace

bool LoraFile::is_there(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / kConfig, none) || fs::exists(folder / kTensors, none);
}

fs::path LoraFile::folder_of(const fs::path& path) {
  const bool own = path.filename() == kConfig || path.filename() == kTensors;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return own && is_there(folder) ? folder : path;
}

LoraFile LoraFile::open(const fs::path& folder) {
  const nlohmann::json json = read_json(folder / kConfig);
  LoraFile adapter(LoraConfig(json, (folder / kConfig).string()), SafetensorsFile::open(folder / kTensors));
  const fs::path whole = fs::absolute(folder).lexically_normal();
  adapter.name_ = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  adapter.find_pairs();
  return adapter;
}

std::string LoraFile::hash() const {
  Fnv1a hash;
  std::string before;
  for (const auto& [name, pair] : pairs_) {
    const std::string scale = number_text(pair.scale, 17);
    if (scale != before) hash.add(scale);
    before = scale;
  }
  hash.add(file_.header());
  std::vector<std::byte> bytes;
  for (const auto& [name, entry] : file_.tensors()) {
    bytes.resize(entry.end - entry.begin);
    file_.read(entry, bytes);
    hash.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return hash.hex();
}

void LoraFile::check_values() const {
  std::string bytes;
  for (const auto& [name, entry] : file_.tensors()) {
    bytes.resize(entry.end - entry.begin);
    file_.read(entry, std::as_writable_bytes(std::span(bytes)));
    const std::vector<float> values = to_floats(entry.type_name, bytes);
    const auto odd = std::ranges::find_if(values, [](float x) { return !(std::abs(x) <= largest_weight); });
    if (odd == values.end()) continue;
    refuse(file_.path().string(), name,
           std::isfinite(*odd) ? "the value " + number_text(*odd, 6) : "a value that is not finite",
           "numbers of at most 65504",
           "the adapter may be damaged: download it again, or check whether its training diverged");
  }
}

void LoraFile::find_pairs() {
  const auto fail = [&](const std::string& where, std::string found, std::string expected) {
    refuse(file_.path().string(), where, std::move(found), std::move(expected));
  };
  if (config_.states() * file_.tensors().size() > kMostWork)
    fail("", "too many tensors for the patterns of its config", "fewer");
  for (const auto& [name, entry] : file_.tensors()) {
    const bool is_a = name.ends_with(kA), is_b = name.ends_with(kB);
    if (!name.starts_with(kBefore) || (!is_a && !is_b) || name.size() > kLongestName) {
      fail(name, "a tensor of another kind", std::string(kBefore) + "NAME" + std::string(kA) + " and lora_B only");
    }
    if (entry.type == TensorType::other) fail(name, entry.type_name, "F32, F16 or BF16");
    const std::string module = name.substr(kBefore.size(), name.size() - kBefore.size() - (is_a ? kA : kB).size());
    if (!is_matrix(module)) {
      fail(name, "a change of " + in_quotes(module), "matrices of the attention and MLP of model.layers, or lm_head");
    }
    if (!config_.targets(module)) {
      fail(name, "a tensor of a module that adapter_config.json does not target; PEFT would ignore it",
           "tensors of target_modules only");
    }
    const int rank = config_.rank(module);
    if (entry.shape.size() != 2 || entry.shape[is_a ? 0 : 1] != rank) {
      fail(name, "a shape of another rank",
           is_a ? "[" + std::to_string(rank) + ", inputs]" : "[outputs, " + std::to_string(rank) + "]");
    }
    Pair& pair = pairs_[module + ".weight"];
    (is_a ? pair.a : pair.b) = &entry;
    pair.scale = config_.scale(module);
  }
  if (pairs_.empty()) fail("", "no tensors", "lora_A and lora_B of some matrix");
  for (const auto& [matrix, pair] : pairs_) {
    if (pair.a == nullptr || pair.b == nullptr) {
      fail(matrix, pair.a == nullptr ? "lora_B without lora_A" : "lora_A without lora_B", "both");
    }
  }
}

std::vector<std::string> LoraFile::left_out(const ModelConfig& model) const {
  std::vector<std::string> out;
  const auto look_at = [&](const std::string& module, bool is_matrix) {
    if (!config_.targets(module) || pairs_.contains(module + ".weight")) return;
    if (!is_matrix) refuse(config_.file(), "target_modules", "it names " + in_quotes(module), "matrices only");
    out.push_back(module);
  };
  for (const char* module : {"lm_head", "model.embed_tokens"}) look_at(module, true);
  for (const char* module : {"model", "model.layers", "model.norm", "model.rotary_emb"}) look_at(module, false);
  for (int layer = 0; layer < model.n_layers; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer);
    look_at(block, false);
    for (const char* part : kOtherParts) look_at(block + part, false);
    const auto index = static_cast<std::size_t>(layer);
    const bool has_experts = index < model.layers.size() && model.layers[index].mlp == MlpKind::experts;
    for (const std::string_view matrix : kMatrices) {
      if (!has_experts || !matrix.starts_with(".mlp")) look_at(block + std::string(matrix), true);
    }
  }
  if (!out.empty() && config_.is_random_without_tensors()) {
    refuse(file_.path().string(), out[0], "no tensors", "both of every module that adapter_config.json targets",
           "with init_lora_weights false PEFT would fill in random numbers");
  }
  for (const auto& [matrix, pair] : pairs_) {
    const std::int64_t outputs = pair.b->shape[0], inputs = pair.a->shape[1];
    if (std::pair(outputs, inputs) == sizes_of(model, module_of(matrix))) continue;
    refuse(file_.path().string(), matrix,
           "a change of a [" + std::to_string(outputs) + ", " + std::to_string(inputs) + "] matrix",
           "the model's sizes: the adapter is for another model");
  }
  return out;
}

}  // namespace kvscope
