// WG-KV's gates as its training saves them (EMCLab-Sinica/WG-KV, scripts/train.py): a dict of
//
//     model.layers.{i}.self_attn.g_predictors.pre_key_norm.weight   [D]          conv1.weight  [H M, 2D, 1]
//                                             post_key_norm.weight  [D]          conv1.bias    [H M]
//                                                                                conv2.weight  [H, M, 1]
//                                                                                conv2.bias    [H]
//
// in a .pt file, or converted to safetensors under the same names. The convolutions have kernel 1 and a group a KV
// head: per-head linear layers.

#include <algorithm>
#include <iterator>

#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_source.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr char kPrefix[] = "model.layers.";
constexpr char kPredictor[] = ".self_attn.g_predictors.";

/// `letters`: its shape in the file, one layer's. The order lets every shape but the first say one new size at most.
struct Row {
  const char* name;
  const char* file_name;
  const char* letters;
};
constexpr Row kRows[] = {
    {"w2", "conv2.weight", "H M 1"},          {"b2", "conv2.bias", "H"},
    {"pre_norm", "pre_key_norm.weight", "D"}, {"post_norm", "post_key_norm.weight", "D"},
    {"w1", "conv1.weight", "HM 2D 1"},        {"b1", "conv1.bias", "HM"},
};

/// Whatever else a predictor has would change what it computes.
void refuse_other_parts(const GateSource& source) {
  for (const auto& [name, item] : source.items()) {
    const std::size_t at = name.find(kPredictor);
    if (at == name.npos) continue;
    const std::string part = name.substr(at + sizeof kPredictor - 1);
    if (std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) { return part == row.file_name; }))
      continue;
    refuse(item.file, name, "an unknown part of the gate", "pre_key_norm, post_key_norm, conv1 and conv2",
           part.starts_with("value_norm") ? "gates that read values too are not supported" : "");
  }
}

}  // namespace

GateFile read_wg_kv_gate(const std::filesystem::path& path, const GateDims& known) {
  const GateSource source(path);
  const std::int64_t layers = count_layers(source, kPrefix, std::string(kPredictor) + kRows[0].file_name);
  if (layers == 0) {
    refuse(path.string(), "", "no tensor " + std::string(kPrefix) + "{layer}" + kPredictor + kRows[0].file_name,
           "the gates of WG-KV", "for other names write gate_mapping.json (docs/reference/gates.md)");
  }
  refuse_other_parts(source);
  GateSizes sizes(known);
  sizes.check_layers(layers, path.string());

  GateFile gate{.config = default_gate_config(GateKind::wg_kv), .warnings = source.warnings()};
  const auto specs = gate_tensor_specs(gate.config);
  for (const Row& row : kRows) {
    const auto name = [&](std::int64_t layer) { return kPrefix + std::to_string(layer) + kPredictor + row.file_name; };
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&](const GateTensorSpec& s) { return std::string(s.name) == row.name; });
    gate.tensors[row.name] = stack_layers(source, name, row.letters, *spec, sizes);
  }
  gate.config.n_hidden = static_cast<int>(sizes.n_hidden());
  gate.dims = sizes.dims();
  return gate;
}

}  // namespace kvscope
