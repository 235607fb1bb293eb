#include "engine/core/files/weights/model_family.h"

#include <algorithm>

namespace kvscope {

std::span<const ModelFamily> model_families() {
  static constexpr ModelFamily kFamilies[] = {
      {.architecture = "Qwen3ForCausalLM",
       .model_type = "qwen3",
       .layer = {.qk_norm = true},
       .windows = true,
       .head_dim = 128},
      {.architecture = "Qwen2ForCausalLM", .model_type = "qwen2", .layer = {.qkv_bias = true}, .windows = true},
      {.architecture = "LlamaForCausalLM", .model_type = "llama", .kv_heads_implied = true},
  };
  return kFamilies;
}

const ModelFamily* find_family(std::string_view architecture) {
  const std::span<const ModelFamily> all = model_families();
  const auto row =
      std::find_if(all.begin(), all.end(), [&](const ModelFamily& f) { return architecture == f.architecture; });
  return row == all.end() ? nullptr : &*row;
}

std::string TensorNames::in_layer(int layer, const char* part, const char* kind) const {
  return std::string(layers) + "." + std::to_string(layer) + "." + part + kind;
}

}  // namespace kvscope
