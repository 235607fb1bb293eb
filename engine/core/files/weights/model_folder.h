#pragma once
// A model's folder as its files say it, and held against each other. Reads headers, not weights.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/files/weights/safetensors.h"

namespace kvscope {

struct ModelFolder {
  ModelConfig config;  // tie_word_embeddings is false where the weights have a head of their own
  Tokenizer tokenizer;
  WeightFiles weights;
  std::vector<std::string> warnings;  // of all files, one line each

  /// Throws Error (bad input) for what is missing or cannot be computed. What only some runs need is a warning.
  static ModelFolder open(const std::filesystem::path& folder);
};

/// Throws Error (bad input) for the first id that the model's embedding has no row for, and names the token if it is one
/// of the tokenizer's, which may be null.
void check_token_ids(const std::vector<std::int32_t>& ids, int vocab_size, const Tokenizer* tokenizer);

}  // namespace kvscope
