#pragma once
// A config.json that is right, and what becomes of it with one thing changed.

#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/files/weights/model_config.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace kvscope::test {

inline nlohmann::json good() {
  return nlohmann::json::parse(R"({
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 4096, "hidden_size": 256,
    "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 64, "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "rope_scaling": null, "attention_bias": false, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "bos_token_id": null, "eos_token_id": 7, "use_sliding_window": false})");
}

inline ModelConfig load(const nlohmann::json& config, const nlohmann::json& generation = nullptr) {
  const TempFolder folder;
  folder.write("config.json", config.dump());
  if (!generation.is_null()) folder.write("generation_config.json", generation.dump());
  return ModelConfig::load(folder.path());
}

/// The error's line without the folder.
inline std::string load_error(const nlohmann::json& config, const nlohmann::json& generation = nullptr) {
  const std::string line = error_of([&] { load(config, generation); });
  const std::size_t at = line.find(generation.is_null() ? "config.json: " : "generation_config.json: ");
  return at == line.npos ? line : line.substr(at);
}

inline nlohmann::json with(const char* key, const nlohmann::json& value) {
  nlohmann::json config = good();
  config[key] = value;
  return config;
}

inline nlohmann::json without(const char* key) {
  nlohmann::json config = good();
  config.erase(key);
  return config;
}

/// Without head_dim, as these families' files are.
inline nlohmann::json of_family(const char* architecture) {
  nlohmann::json config = without("head_dim");
  config["architectures"] = {architecture};
  config["model_type"] = find_family(architecture)->model_type;
  return config;
}

}  // namespace kvscope::test
