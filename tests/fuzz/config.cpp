// config.json and, behind a NUL, generation_config.json.

#include "engine/core/files/weights/model_config.h"
#include "tests/fuzz/format.h"

namespace kvscope::fuzz {
namespace {

void read_config(std::string_view bytes) {
  put("config.json", take_part(bytes, '\0'));
  put("generation_config.json", bytes.empty() ? "{}" : bytes);
  const ModelConfig config = ModelConfig::load(memory_folder());
  if (config.layers.size() != static_cast<std::size_t>(config.n_layers) || config.group_size() < 1) std::abort();
}

const Registration registration("config", read_config);

}  // namespace
}  // namespace kvscope::fuzz
