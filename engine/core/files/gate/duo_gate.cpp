// Head files as gates whose score is the same for every token: a head of alpha >= threshold keeps everything, the others
// sinks and window. DuoAttention's directory (duo_directory.cpp reads it) and our own (heads_json.cpp).

#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_shapes.h"
#include "engine/core/files/gate/head_formats.h"

namespace kvscope {

namespace {

GateFile gate_of(const HeadFile& heads, const GateDims& known, const std::string& file) {
  GateFile gate{.config = default_gate_config(GateKind::duo)};
  gate.config.n_sink = heads.n_sink.value_or(gate.config.n_sink);
  gate.config.window = heads.window.value_or(gate.config.window);
  gate.config.threshold = heads.threshold.value_or(gate.config.threshold);
  GateSizes sizes(known);
  const HeadSelection& found = heads.selection;
  sizes.check_layers(found.n_layers, file);
  const std::vector<std::int64_t> shape = {found.n_layers, found.n_kv_heads};
  sizes.check("L H", shape, file, "alpha");
  gate.tensors["alpha"] = {shape, found.full};
  gate.dims = {.n_layers = found.n_layers, .n_kv_heads = found.n_kv_heads};
  return gate;
}

}  // namespace

GateFile read_duo_gate(const std::filesystem::path& folder, const GateDims& known) {
  return gate_of(read_duo(folder, {}), known, (folder / kDuoTable).string());
}

GateFile read_heads_gate(const std::filesystem::path& file, const GateDims& known) {
  return gate_of(read_heads_json(file, {}), known, file.string());
}

}  // namespace kvscope
