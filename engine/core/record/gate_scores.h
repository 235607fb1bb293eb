#pragma once
// What the gates of a model say of a text that ran without them: so that one run can be asked about every policy.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/record/run_record.h"

namespace kvscope {

/// Of the text `ids` under a full cache (teacher forcing), by every gate that is loaded.
struct GateScoresRequest {
  std::vector<std::int32_t> ids;
};

/// One gate's raw scores, and what else a run of its policies takes from it.
struct GateScores {
  GateOfModel gate;
  std::string text, name;        // ScorerInfo::text and ScorerInfo::gate of a run that decides by it
  std::vector<float> log_gamma;  // [n_layers * n_kv_heads] each head's own decay; empty: it has none
  HeadSeries<float> scores;      // [n_layers][n_kv_heads][ids]; NaN for the last `delay` tokens
};

/// In the order in which policies look for theirs.
using ScoresOfGates = std::vector<GateScores>;

/// The first of one of these kinds, of any if none is named; null if there is none.
const GateScores* scores_of(const ScoresOfGates& gates, std::span<const std::string_view> kinds);

/// Throws RunFault unless each has a row of `n_tokens` scores for every KV head of the model, and decays of 0 or less.
void check_gate_scores(const ScoresOfGates& gates, const ModelInfo& model, int n_tokens);

}  // namespace kvscope
