#pragma once
// Decoding under scores that are given, not computed: what random retention and the oracle itself would achieve. For
// evaluation only: keys and values of evicted tokens are hidden, not freed.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/decode/generation.h"

namespace kvscope::engine {

/// [n_layers][n_kv_heads][n] uniform in [0, 1), from `seed` alone.
HeadSeries<float> random_scores(const ModelConfig& config, int n, std::uint64_t seed);

/// log(1e-6 + future mass) of each token of `ids` under the dense model (KVpop eq. 3).
HeadSeries<float> oracle_scores(const LoadedModel& model, std::span<const std::int32_t> ids, int window);

/// Lifetimes of every head by running top-k over the scores.
LifetimeMap scored_lifetimes(const HeadSeries<float>& scores, const RetentionGeometry& geometry);

/// Reads `prompt` and continues greedily under the lifetimes (which must cover prompt and answer) for as long as the
/// tokens are those of `answer`. Returns whether all of them were.
bool answers_under(const LoadedModel& model, const LifetimeMap& lifetimes, std::span<const std::int32_t> prompt,
                   std::span<const std::int32_t> answer);

}  // namespace kvscope::engine
