#pragma once
// What a hybrid study lets expect of heads that it has not measured.

#include <optional>
#include <string>
#include <vector>

#include "engine/core/study/heads/head_signal.h"
#include "engine/core/study/table/study_table.h"

namespace kvscope {

/// Mean NLL above the dense model's that a choice of global heads is expected to have, nats a token: a guess between what was
/// measured, never a measurement. Of a choice with the share x of the study's signal,
///
///     x = sum over global heads of max(s_h, 0) / sum over all heads of max(s_h, 0)
///
/// it is the straight line between the blocks of the isotonic regression (falling in x, least squares, points of one x pooled)
/// of the study's measured points (x, nll_difference), and beyond the first and last block their value.
struct HybridPrediction {
  double nll_difference = 0;   // nats/token
  double share = 0;            // x
  double error = 0;            // root mean square over the points, each predicted by the others alone
  int n_points = 0;            // different choices that were measured, dense and all local with them
  std::string signal;          // the study's own name of it; empty where it says none
  int n_sink = 0, window = 0;  // of the study's local heads; 0: it does not say
};

/// Nothing where `study` is no hybrid study of `model` (of its layers and KV heads, and of its weights where both say them), has
/// no signal, or fewer than four choices that were measured. `global`: [n_layers * n_kv_heads].
std::optional<HybridPrediction> predict_hybrid(const StudyTable& study, const ModelInfo& model,
                                               const GlobalHeads& global);

}  // namespace kvscope
