// KVzap's folder (nvidia/KVzap-{linear,mlp}-MODEL; kvpress, presses/kvzap_press.py): config.json with input_dim (F),
// output_dim (H), hidden_dim (M; null: linear) and n_modules (L), and in model.safetensors
//
//     linear   layers.{i}.weight [H, F], layers.{i}.bias [H]
//     mlp      layers.{i}.0.weight [M, F], layers.{i}.0.bias [M], layers.{i}.2.weight [H, M], layers.{i}.2.bias [H]
//
// Earlier versions say module_list instead of layers.

#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_source.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr std::int64_t kMaxSize = 1 << 16;

std::string find_prefix(const GateSource& source, const std::string& part) {
  for (const char* prefix : {"layers.", "module_list."}) {
    if (count_layers(source, prefix, part) > 0) return prefix;
  }
  refuse(source.file(), "", "no tensor layers.{layer}" + part, "the modules of KVzap",
         "for other names write gate_mapping.json (docs/reference/gates.md)");
}

constexpr char kModelType[] = "kvzap";

}  // namespace

bool is_kvzap_config(const nlohmann::json& config) {
  return config.is_object() && ((config.contains("model_type") && config["model_type"] == kModelType) ||
                                (config.contains("n_modules") && config.contains("output_dim")));
}

GateFile read_kvzap_gate(const std::filesystem::path& folder, const GateDims& known) {
  const std::filesystem::path path = folder / kConfigJson;
  const nlohmann::json json = read_json(path);
  const JsonObject config(json, path.string());
  const bool mlp = config.has("hidden_dim");
  GateFile gate{.config = default_gate_config(mlp ? GateKind::kvzap_mlp : GateKind::kvzap_linear)};
  if (mlp) gate.config.n_hidden = static_cast<int>(config.integer("hidden_dim", 1, kMaxSize));
  const GateDims file = {.n_layers = config.integer("n_modules", 1, kMaxSize),
                         .n_kv_heads = config.integer("output_dim", 1, kMaxSize),
                         .hidden_size = config.integer("input_dim", 1, kMaxSize)};
  check_dims(file, known, path.string());
  GateSizes sizes(file, gate.config.n_hidden);

  const GateSource source(folder / "model.safetensors");
  const std::string out = mlp ? ".2" : "", prefix = find_prefix(source, out + ".weight");
  for (const GateTensorSpec& spec : gate_tensor_specs(gate.config)) {
    const std::string tensor = spec.name;  // w1 b1 of the first, w2 b2 of the last module
    const std::string part = (tensor[1] == '1' ? ".0" : out) + (tensor[0] == 'w' ? ".weight" : ".bias");
    const auto name = [&](std::int64_t layer) { return prefix + std::to_string(layer) + part; };
    gate.tensors[tensor] = stack_layers(source, name, layer_shape(spec), spec, sizes);
  }
  gate.dims = sizes.dims();
  return gate;
}

}  // namespace kvscope
