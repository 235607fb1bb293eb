#pragma once
// What config.json and generation_config.json say of a model, checked.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/core/files/weights/generation_config.h"
#include "engine/core/files/weights/model_family.h"

namespace kvscope {

struct ModelConfig {
  const ModelFamily* family = nullptr;  // of set_family()
  int vocab_size = 0, hidden_size = 0, intermediate_size = 0;
  int n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int max_positions = 0;
  float rms_norm_eps = 1e-6f;       // of the final norm
  std::vector<LayerConfig> layers;  // [n_layers]
  bool tie_word_embeddings = false;
  std::string dtype;  // of the file: "bfloat16", "float32", "float16"
  std::vector<std::int32_t> eos_ids;
  GenerationDefaults generation;
  std::vector<std::string> warnings;  // one line each: what these files say and nobody here reads
  int group_size() const { return n_heads / n_kv_heads; }
  /// Whether a layer attends to its window alone.
  bool is_local(int layer) const { return layers[static_cast<std::size_t>(layer)].window > 0; }
  /// [n_layers] of the windows, 0: a global layer. Empty where all are global.
  std::vector<std::int32_t> windows() const;
  /// Of q . k in a layer's attention.
  double attention_scale(int layer) const;
  /// Makes all layers, n_layers of them, what the family's are.
  void set_family(const ModelFamily& of);

  /// Reads config.json and, if it is there, generation_config.json. Throws Error naming field, found and expected; an
  /// unknown architecture is named beside the supported ones.
  static ModelConfig load(const std::filesystem::path& folder);
  /// The same of a config.json alone, which errors call `file`.
  static ModelConfig of(const nlohmann::json& config, const std::string& file);
};

}  // namespace kvscope
