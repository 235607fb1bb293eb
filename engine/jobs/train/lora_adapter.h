#pragma once
// A LoRA adapter as something to train: a small change of a model's matrices, in PEFT's files.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/core/files/weights/model_config.h"
#include "engine/jobs/train/flat_parameters.h"
#include "engine/jobs/train/lora_options.h"

namespace kvscope::engine {

/// y = W x + scale B A x, scale = alpha / rank. A begins normal with the deviation of
/// PEFT's uniform numbers, (3 inputs)^-1/2, and B at 0: a model that begins as it is. Masters are float32, products in compute_type.
class LoraAdapter {
 public:
  /// Throws Error (bad input) that names a target that no matrix of the model ends in, and lists those there are.
  LoraAdapter(const LoraOptions& options, const ModelConfig& model, at::Device device, at::ScalarType compute_type);
  void initialise(std::uint64_t seed);

  /// What is added to the product of one matrix, by its name in the model's files; undefined where it is not adapted.
  struct Pair {
    at::Tensor a, b;  // [rank, inputs], [outputs, rank]
  };
  Pair of(const std::string& weight_name) const;
  double scale() const { return options_.alpha / options_.rank; }
  const LoraOptions& options() const { return options_; }

  /// adapter_config.json and adapter_model.safetensors (bfloat16) in `folder`; base: what adapter_config.json names as its model.
  void save(const std::filesystem::path& folder, const std::string& base) const;

  FlatParameters& parameters() { return parameters_; }
  const FlatParameters& parameters() const { return parameters_; }

 private:
  LoraOptions options_;
  FlatParameters parameters_;
};

}  // namespace kvscope::engine
