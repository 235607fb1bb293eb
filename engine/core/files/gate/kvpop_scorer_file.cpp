// kvpop_scorer.json and kvpop_scorer.safetensors, which training writes beside a model (engine/jobs/train/
// checkpoint_writer.cpp): KVpop's delayed mLSTM under the names of gate_file.h.

#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_source.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {

GateFile read_kvpop_scorer(const std::filesystem::path& folder, const GateDims& known) {
  const std::filesystem::path path = folder / kKvpopJson;
  const nlohmann::json json = read_json(path);
  const JsonObject object(json, path.string());
  const auto must_be = [&](const char* key, const char* expected) {
    if (const std::string found = object.text(key); found != expected) {
      throw Error({.file = path.string(), .where = key, .found = in_quotes(found, 40), .expected = expected});
    }
  };
  must_be("method", "kvpop");
  must_be("scorer", "mlstm");

  GateFile gate{.config = default_gate_config(GateKind::kvpop_mlstm)};
  GateConfig& config = gate.config;
  config.delay = static_cast<int>(object.integer("delay", 1, 65536));
  config.window = static_cast<int>(object.integer_or("window", config.delay, 1, 65536));
  config.n_sink = static_cast<int>(object.integer_or("n_sink", config.n_sink, 0, 65536));
  config.soft_cap = object.number_or("soft_cap", 0, 0, 1e6);
  if (config.window != config.delay) {
    refuse(path.string(), "window", std::to_string(config.window) + ", which differs from the delay",
           std::to_string(config.delay) + ": the score is read when the token leaves the window");
  }
  const GateSource source(folder / kKvpopTensors);
  GateSizes sizes(known);
  read_stacked(source, sizes, gate);
  return gate;
}

}  // namespace kvscope
