#pragma once
// Model folders as people have them on their disk, small and made up: config.json, safetensors, tokenizer.json.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/files/weights/model_config.h"
#include "engine/core/files/weights/safetensors.h"

namespace kvscope::test {

struct ModelFolderOptions {
  TensorType type = TensorType::f32;  // of every tensor
  int n_shards = 1;                   // more: an index and model-0000I-of-0000N.safetensors, tensors dealt in turn
};

/// A config.json of `architecture` with 2 layers of 4 query and 2 KV heads of 16 features; for the sample tokenizer.
nlohmann::json small_model_config(const std::string& architecture = "Qwen3ForCausalLM");

/// Name and shape of every tensor that a model of this configuration has.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensor_shapes(const ModelConfig& config);

/// Element i of the tensor of that name, by the formula of formula_source (engine/model/weights.h): a second writing of
/// it, without LibTorch, so that files can be compared with what the engine and make_golden_logits.py draw.
std::vector<float> formula_tensor(const std::string& name, const std::vector<std::int64_t>& shape, std::uint64_t seed);

/// Fills `folder` with a model of that config.json, its weights drawn by the formula, and the sample model's tokenizer.
void write_model_folder(const std::filesystem::path& folder, const nlohmann::json& config, std::uint64_t seed,
                        const ModelFolderOptions& options = {});

}  // namespace kvscope::test
