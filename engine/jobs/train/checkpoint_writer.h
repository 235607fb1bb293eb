#pragma once
// A trained model as a Hugging Face folder, and back.

#include <filesystem>

#include "engine/core/files/gate/gate_file.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/jobs/train/recipe.h"
#include "engine/jobs/train/scorer_module.h"

namespace kvscope::engine {

/// Writes model.safetensors (bfloat16), config.json, generation_config.json, tokenizer_config.json and a copy of
/// `tokenizer` as tokenizer.json. Each file is replaced whole or not at all; the weights come last.
void write_model(const std::filesystem::path& folder, const DecoderModule& model,
                 const std::filesystem::path& tokenizer);

/// The same of a model that began as the one in folder `from`: its configuration and tokenizer are copied, bytes for bytes.
void write_model_like(const std::filesystem::path& from, const std::filesystem::path& folder,
                      const DecoderModule& model);

/// Reads weights of the module's shape from such a folder into its masters and publishes them.
void read_model(const std::filesystem::path& folder, DecoderModule& model);

/// All masters as `type` (float32 or bfloat16), in one file of safetensors.
void write_parameters(const std::filesystem::path& path, const FlatParameters& parameters, at::ScalarType type);
/// As a gate's file has it.
GateTensor gate_tensor(const at::Tensor& tensor);

/// Writes kvpop_scorer.safetensors (float32), then kvpop_scorer.json.
void write_scorer(const std::filesystem::path& folder, const ScorerModule& scorer, const ScorerOptions& options);

}  // namespace kvscope::engine
