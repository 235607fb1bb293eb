#include "tests/engine/gated_model.h"

#include "engine/core/files/gate/gate_config.h"
#include "engine/core/files/gate/gate_shapes.h"
#include "engine/core/support/random.h"
#include "tests/support/temp_folder.h"

namespace kvscope::test {

GateFile random_gate(GateKind kind, int delay, int kernel, const MlstmVariant& variant, const ModelConfig& model) {
  GateFile gate;
  gate.config = default_gate_config(kind);
  gate.config.window = 16;
  gate.config.mlstm = variant;
  gate.config.delay = kind == GateKind::dms || kind == GateKind::dms_separate ? 1 : delay;
  if (kernel > 1) gate.config.kernel = kernel, gate.config.delay = kernel / 2;
  gate.config.n_hidden = has_hidden_layer(gate.config) || kernel > 1 ? 24 : 0;
  if (kind == GateKind::dms || kind == GateKind::dms_separate) gate.config.offset = 0;
  gate.dims = {model.n_layers, model.n_kv_heads, model.head_dim, model.hidden_size};
  const GateSizes sizes(gate.dims, gate.config.n_hidden, kernel);
  std::uint64_t stream = 0;
  for (const GateTensorSpec& spec : gate_tensor_specs(gate.config)) {
    Random random(7, ++stream);
    GateTensor& tensor = gate.tensors[spec.name];
    tensor.shape = sizes.shape(spec.shape);
    std::int64_t n = 1;
    for (const std::int64_t size : tensor.shape) n *= size;
    const bool is_norm = std::string(spec.name).find("norm") != std::string::npos;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto unit = static_cast<float>(2 * random.uniform() - 1);
      tensor.values.push_back(is_norm ? 1 + unit / 10 : kind == GateKind::duo ? (unit + 1) / 2 : unit / 4);
    }
  }
  return gate;
}

engine::LoadedModel gated_model(const std::vector<GateFile>& gates, const std::string& device, const std::string& dtype,
                                const ModelConfig& config) {
  const TempFolder folder;
  engine::LoadOptions options{device, dtype, {}};
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const std::filesystem::path path = folder.path() / std::to_string(i);
    save_gate(path, gates[i]);
    options.gates.push_back(path.string());
  }
  return engine::LoadedModel::random(config, 1, options);
}

}  // namespace kvscope::test
