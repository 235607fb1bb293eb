// DuoAttention's directory (engine/core/files/gate/duo_directory.cpp reads it) as a gate whose score is the same for every
// token: a head of alpha >= threshold keeps everything, the others sinks and window.

#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_shapes.h"
#include "engine/core/support/json_file.h"

namespace kvscope {

GateFile read_duo_gate(const std::filesystem::path& folder, const GateDims& known) {
  const HeadSelection heads = import_duo(folder);
  const nlohmann::json json = read_json(folder / kConfigJson);
  const JsonObject config(json, (folder / kConfigJson).string());
  GateFile gate{.config = default_gate_config(GateKind::duo)};
  gate.config.n_sink = static_cast<int>(config.integer("sink_size", 0, 1 << 30));
  gate.config.window = static_cast<int>(config.integer("recent_size", 0, 1 << 30));

  const std::string file = (folder / kDuoTable).string();
  GateSizes sizes(known);
  sizes.check_layers(heads.n_layers, file);
  const std::vector<std::int64_t> shape = {heads.n_layers, heads.n_kv_heads};
  sizes.check("L H", shape, file, "alpha");
  gate.tensors["alpha"] = {shape, heads.full};
  gate.dims = {.n_layers = heads.n_layers, .n_kv_heads = heads.n_kv_heads};
  return gate;
}

}  // namespace kvscope
