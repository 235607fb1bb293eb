// DuoAttention's directory (engine/core/files/gate/duo_directory.cpp reads it) as a gate whose score is the same for every
// token: a head of alpha >= threshold keeps everything, the others sinks and window.

#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_shapes.h"

namespace kvscope {

GateFile read_duo_gate(const std::filesystem::path& folder, const GateDims& known) {
  const HeadSelection heads = import_duo(folder);
  const DuoConfig config = read_duo_config(folder);
  GateFile gate{.config = default_gate_config(GateKind::duo)};
  gate.config.n_sink = config.sink_size;
  gate.config.window = config.recent_size;
  gate.config.threshold = config.threshold;

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
