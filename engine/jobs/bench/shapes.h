#pragma once
// Published shapes of models, to be measured with random weights: speed depends on the shape alone.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/model.h"

namespace kvscope::engine {

/// The shape named "qwen3-8b", "llama-3.1-8b", ... Throws Error (usage) that lists what there is.
ModelConfig shape_config(const std::string& name);

/// Multiplications and additions of one token in the layers' matrices, twice the number of their weights; norms,
/// embedding and the vocabulary's matrix are not in it.
double layer_flops_per_token(const ModelConfig& config);

/// Floating-point operations of attention when `pairs` (query, key) pairs see each other in one query head:
/// 4 head_dim for each pair, head and layer.
double attention_flops(const ModelConfig& config, double pairs);

/// Ids for everyone alike, spread over the vocabulary.
std::vector<std::int32_t> bench_prompt(int n, int vocab_size);

}  // namespace kvscope::engine
