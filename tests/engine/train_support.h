#pragma once
// What tests of the trainer share.

#include <c10/core/Device.h>

#include <filesystem>
#include <optional>

#include "engine/core/files/weights/model_config.h"
#include "engine/core/files/weights/model_family.h"
#include "engine/core/support/error.h"
#include "engine/jobs/train/train_device.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

namespace kvscope::test {

inline const std::filesystem::path kModel = in_source("samples/models/kvscope-tiny"),
                                   kText = in_source("samples/prompts/heldout.txt");

/// Two layers of two KV heads of 8: small enough for loops.
inline ModelConfig student_config() {
  ModelConfig model;
  model.n_layers = 2;
  model.hidden_size = 32;
  model.n_heads = 4;
  model.n_kv_heads = 2;
  model.head_dim = 8;
  model.intermediate_size = 48;
  model.vocab_size = 64;
  model.set_family(*find_family("Qwen3ForCausalLM"));
  model.tie_word_embeddings = true;
  return model;
}

/// Use as: const auto device = cuda_or_skip(); if (!device) return;
inline std::optional<at::Device> cuda_or_skip() {
  try {
    return engine::training_device("cuda");
  } catch (const Error&) {
    skip("no CUDA device");
    return std::nullopt;
  }
}

}  // namespace kvscope::test
