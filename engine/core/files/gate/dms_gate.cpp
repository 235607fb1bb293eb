// DMS is part of a model: its folder says so in config.json (nvidia/Qwen3-8B-DMS-8x; Model-Optimizer, experimental/dms)
// or in dms_metadata.json (FastDMS), which goes first.
//
//     dms_window_size, dms_alpha_scale, dms_initial_alpha_offset, dms_cr, dms_alpha_per, dms_separate_alpha
//     window_size, alpha_scale, alpha_offset, target_cr, at the top or under "config"
//
// With dms_separate_alpha the weights have model.layers.{i}.self_attn.dms_proj_alpha_norm.weight [F] and
// .dms_proj_alpha.weight [H, F], and a bias [H] if the model's attention has biases.

#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_source.h"
#include "engine/core/files/weights/float_values.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr std::int64_t kMaxSize = 1 << 20;
constexpr int kMaxWindow = 1 << 24;
constexpr double kMaxNumber = 1e6;

/// The first of the keys that is there.
double number(const JsonObject& json, std::initializer_list<const char*> keys, double fallback) {
  for (const char* key : keys) {
    if (json.has(key)) return json.number(key, -kMaxNumber, kMaxNumber);
  }
  return fallback;
}

void read_numbers(const JsonObject& json, std::int64_t default_window, GateConfig& config, std::string& factor) {
  std::int64_t window = default_window;
  for (const char* key : {"window_size", "dms_window_size"}) {
    if (json.has(key)) {
      window = json.integer(key, 0, kMaxWindow);
      break;
    }
  }
  config.window = static_cast<int>(window) + 1;  // q - t <= window there, q - t < window here
  config.scale = number(json, {"alpha_scale", "dms_alpha_scale"}, config.scale);
  // Subtracted there, added here.
  config.offset = -number(json, {"alpha_offset", "dms_alpha_offset", "dms_initial_alpha_offset"}, -config.offset);
  for (const char* key : {"target_cr", "dms_cr"}) {
    if (json.has(key)) factor = ", trained for 1/" + std::to_string(json.integer(key, 1, 4096));
  }
}

bool read_per_layer(const JsonObject& model) {
  const std::string per = model.text_or("dms_alpha_per", "head");
  if (per == "head" || per == "layer") return per == "layer";
  throw Error(
      {.file = model.file(), .where = "dms_alpha_per", .found = in_quotes(per, 40), .expected = "head or layer"});
}

void read_tensors(const std::filesystem::path& folder, const GateDims& dims, GateFile& gate) {
  const WeightFiles weights = WeightFiles::open(folder);
  GateSizes sizes(dims);
  for (const GateTensorSpec& spec : gate_tensor_specs(gate.config)) {
    const std::string tensor = spec.name, part = tensor == "norm" ? "dms_proj_alpha_norm.weight"
                                                 : tensor == "w2" ? "dms_proj_alpha.weight"
                                                                  : "dms_proj_alpha.bias";
    const auto name = [&](std::int64_t layer) {
      return "model.layers." + std::to_string(layer) + ".self_attn." + part;
    };
    if (tensor == "b2" && !weights.has(name(0))) {
      gate.tensors[tensor] = zeros(spec, sizes);
      continue;
    }
    GateTensor out{.shape = sizes.shape(spec.shape)};
    for (std::int64_t layer = 0; layer < dims.n_layers; ++layer) {
      const auto [file, entry] = weights.find(name(layer), sizes.shape(layer_shape(spec)));
      std::string bytes(entry->end - entry->begin, '\0');
      file->read(*entry, std::as_writable_bytes(std::span(bytes)));
      const std::vector<float> values = to_floats(entry->type_name, bytes);
      out.values.insert(out.values.end(), values.begin(), values.end());
    }
    gate.tensors[tensor] = std::move(out);
  }
}

}  // namespace

bool is_dms_config(const nlohmann::json& config) {
  return config.is_object() && (config.contains("dms_window_size") || config.contains("dms_alpha_scale") ||
                                config.contains("dms_initial_alpha_offset") || config.contains("dms_cr"));
}

GateFile read_dms_gate(const std::filesystem::path& folder, const GateDims& known) {
  const std::filesystem::path model_path = folder / kConfigJson, path = folder / kDmsMetadata;
  const nlohmann::json model_json = read_json(model_path);
  const JsonObject model(model_json, model_path.string());
  const bool separate = model.boolean_or("dms_separate_alpha", false);
  GateFile gate{.config = default_gate_config(separate ? GateKind::dms_separate : GateKind::dms)};
  if (separate) gate.config.norm_eps = model.number_or("rms_norm_eps", gate.config.norm_eps, 1e-12, 0.1);
  gate.config.per_layer = read_per_layer(model);
  if (model.boolean_or("dms_disable_eviction", false)) {
    refuse(model_path.string(), "dms_disable_eviction", "true: the model's gates are switched off",
           "a model whose gates are on");
  }
  const std::int64_t n_heads = model.integer("num_attention_heads", 1, kMaxSize);
  gate.dims = {.n_layers = model.integer("num_hidden_layers", 1, 4096),
               .n_kv_heads = model.integer_or("num_key_value_heads", n_heads, 1, kMaxSize),
               .hidden_size = separate ? model.integer("hidden_size", 1, kMaxSize) : 0};
  check_dims(gate.dims, known, model_path.string());

  std::string factor;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    const nlohmann::json json = read_json(path);
    const JsonObject top(json, path.string());
    if (top.has("sidecar")) {
      refuse(path.string(), "sidecar", "a gate in a separate file", "the model's own query channel",
             "write gate_mapping.json for it (docs/reference/gates.md)");
    }
    const bool nested = top.has("config");
    read_numbers(JsonObject(nested ? json["config"] : json, path.string(), nested ? "config" : ""), 256, gate.config,
                 factor);
  } else {
    read_numbers(model, gate.config.window - 1, gate.config, factor);
  }
  if (separate) read_tensors(folder, gate.dims, gate);
  gate.description = gate_description(gate) + factor;
  return gate;
}

}  // namespace kvscope
