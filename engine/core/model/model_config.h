#pragma once
// What config.json says of a model, checked.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvscope {

struct ModelConfig {
  std::string architecture;  // "Qwen3ForCausalLM"
  int vocab_size = 0, hidden_size = 0, intermediate_size = 0;
  int n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int max_positions = 0;
  float rms_norm_eps = 1e-6f;
  double rope_theta = 10000;
  bool tie_word_embeddings = false;
  bool qk_norm = true;  // Qwen3: RMSNorm on q and k per head
  std::string dtype;    // of the file: "bfloat16", "float32", "float16"
  std::vector<std::int32_t> eos_ids;
  int group_size() const { return n_heads / n_kv_heads; }

  /// Reads config.json (and generation_config.json's eos ids). Throws Error naming field, found and expected; an
  /// unknown architecture is named beside the supported ones.
  static ModelConfig load(const std::filesystem::path& folder);
};

}  // namespace kvscope
