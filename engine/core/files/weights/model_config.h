#pragma once
// What config.json and generation_config.json say of a model, checked.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/files/weights/rope_frequencies.h"

namespace kvscope {

/// How the model's makers sample from it; what they do not say is absent. Ranges are those of generation.
struct GenerationDefaults {
  std::optional<bool> do_sample;
  std::optional<double> temperature;         // >= 0
  std::optional<int> top_k;                  // >= 0, 0: no limit
  std::optional<double> top_p, min_p;        // 0 ... 1
  std::optional<double> repetition_penalty;  // > 0, 1: none
  bool operator==(const GenerationDefaults&) const = default;
};

struct ModelConfig {
  std::string architecture;  // "Qwen3ForCausalLM", "Qwen2ForCausalLM" or "LlamaForCausalLM"
  int vocab_size = 0, hidden_size = 0, intermediate_size = 0;
  int n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int max_positions = 0;
  float rms_norm_eps = 1e-6f;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;
  bool qk_norm = true;    // Qwen3: RMSNorm on q and k per head
  bool qkv_bias = false;  // Qwen2: q, k and v have a bias
  std::string dtype;      // of the file: "bfloat16", "float32", "float16"
  std::vector<std::int32_t> eos_ids;
  GenerationDefaults generation;
  int group_size() const { return n_heads / n_kv_heads; }

  /// Reads config.json and, if it is there, generation_config.json. Throws Error naming field, found and expected; an
  /// unknown architecture is named beside the supported ones.
  static ModelConfig load(const std::filesystem::path& folder);
};

}  // namespace kvscope
