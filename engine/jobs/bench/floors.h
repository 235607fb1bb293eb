#pragma once
// The least that a device must read or compute: what the times of benchmarks are divided by.

#include "engine/decode/eviction/slot_cache.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::engine {

/// Bytes of all parameters.
double weight_bytes(const LoadedModel& model);

/// Bytes that one step must read: every weight but the embedding's other rows, and `cache_bytes` for each of `batch`
/// sequences; with a scorer also its weights once, and twice each sequence's memory of it. Of a layer's experts those that
/// are chosen: n (1 - (1 - per_token / n)^batch) of n, as many as differ if each sequence's are drawn apart.
double bytes_per_step(const LoadedModel& model, double cache_bytes, const TokenScorer* scorer, int batch);

/// The scorer that a policy's steps read, in a run of n positions; null for none, and for a policy that looks ahead: it has
/// read its scores before the first step. Belongs to the model.
const TokenScorer* scorer_of_steps(const LoadedModel& model, const PolicySpec& policy, int n);

/// Bytes of the kept keys and values.
double kept_bytes(const LoadedModel& model, const SlotCache& cache);
/// The same of `tokens` kept tokens, counted over all layers and heads.
double kept_bytes(const LoadedModel& model, double tokens);

/// Elements of the layers' matrices, all experts included; norms, embedding and the vocabulary's matrix are not in it.
double layer_weights(const ModelConfig& config);

/// Multiplications and additions of one token in the layers' matrices, twice the number of the weights that it meets: of
/// experts those that it goes through.
double layer_flops_per_token(const ModelConfig& config);

/// (query, key) pairs that see each other in one query head of each layer, over all layers: `pairs` in a global layer, and
/// those of n tokens under its window in a local one.
double pairs_of_layers(const ModelConfig& config, double pairs, int n);

/// Floating-point operations of attention over n tokens when `pairs` (query, key) pairs see each other in one query head of
/// a global layer: 4 head_dim for each pair of pairs_of_layers() and head.
double attention_flops(const ModelConfig& config, double pairs, int n);

/// Tokens after which a head of this policy may evict: its budget; without one sinks and window, at most n.
int tokens_to_fill(const PolicySpec& policy, int n);

/// (query, key) pairs of one head that see each other in n tokens. A policy without a budget keeps sinks and window, and of
/// older tokens always the same share, so that it has `kept` at the end.
double visible_pairs(const PolicySpec& policy, int n, double kept);

/// A prompt of n tokens: its products and its attention. `kept`: as above, mean over all heads.
double prompt_flops(const ModelConfig& config, const PolicySpec& policy, int n, double kept);
/// The same under the full cache.
double dense_prompt_flops(const ModelConfig& config, int n);

/// Tokens that a head has in the cache, mean over all heads.
double kept_tokens(const LoadedModel& model, const SlotCache& cache);

/// The oracle's second look at n tokens: one product of query and key for each pair with the query behind the window.
double transposed_flops(const ModelConfig& config, int n, int window);

}  // namespace kvscope::engine
