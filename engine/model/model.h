#pragma once
// One model on one device. No LibTorch here, so that who only hands it on compiles quickly; the tensors are in
// model/weights.h.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/files/weights/model_folder.h"
#include "engine/core/record/run_record.h"

namespace kvscope::engine {

struct Weights;

/// Bytes read so far and in all. May throw to stop the loading.
using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// What its files say, its weights and its tokenizer. Devices are "auto", "cpu", "cuda", "cuda:1"; "auto" is the first
/// CUDA device if there is one, else the CPU. Types are "auto", "float32", "bfloat16"; "auto" is bfloat16 on CUDA,
/// float32 on the CPU.
struct Model {
  ModelConfig config;
  ModelInfo info;
  std::shared_ptr<Weights> weights;
  std::shared_ptr<Tokenizer> tokenizer;  // null if there is none
  std::vector<std::string> warnings;     // ModelFolder::warnings

  /// Reads a Hugging Face folder (config.json, *.safetensors, tokenizer.json). Throws Error: bad input for the files,
  /// resource for a device that is missing or too small. `adapter`: the folder of one (lora_file.h), added to the weights while they are read; the model is
  /// another one then, by name and weights_hash.
  static Model load(const std::filesystem::path& folder, const std::string& device, const std::string& dtype,
                    const LoadProgress& progress, const std::filesystem::path& adapter = {});
  /// Weights by formula_source(), no tokenizer.
  static Model random(const ModelConfig& config, std::uint64_t seed, const std::string& device,
                      const std::string& dtype);
};

}  // namespace kvscope::engine
