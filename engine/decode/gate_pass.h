#pragma once
// A dense pass over a text beside which scorers give its tokens their scores.

#include <memory>
#include <span>

#include "engine/core/record/gate_scores.h"
#include "engine/decode/hooks.h"
#include "engine/scorer/loaded_model.h"
#include "engine/scorer/token_scorer.h"

namespace kvscope::engine {

/// Raw scores of a text under a full cache by each of these scorers, [n_layers][n_kv_heads][ids]; NaN for the last
/// `delay` of it. One pass serves all: it costs what reading the text costs, and each scorer's own weights besides.
/// `phase` names it to the progress hook. Throws Error (cancelled) when the hook says so.
std::vector<HeadSeries<float>> dense_scores(const LoadedModel& model, std::span<const TokenScorer* const> scorers,
                                            std::span<const std::int32_t> ids, const char* phase,
                                            const Hooks& hooks = {});

/// By every gate that the model was loaded with. The same bytes for the same text and gates on a CPU. Throws Error: (usage)
/// a text without tokens, longer than the model reads, or with ids that are none; (bad input) a model without any
/// gate; (cancelled) as above.
ScoresOfGates gate_scores(const LoadedModel& model, const GateScoresRequest& request, const Hooks& hooks = {});

}  // namespace kvscope::engine
