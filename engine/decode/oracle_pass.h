#pragma once
// The first of the oracle policy's two passes.

#include <memory>
#include <span>
#include <vector>

#include "engine/core/record/run_request.h"
#include "engine/decode/hooks.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::engine {

/// Null unless the request's policy goes by the future (ScoreSource::future). Else the targets of a dense pass over its
/// text, one a position and head (OracleSpec with the policy's window, mass and weight):
///
///     a text that is read       the text itself
///     a run that draws          prompt and the dense answer: what a full cache goes on to say
///
/// so that from the first token on that is drawn otherwise than densely, the oracle looks at what was not said.
std::shared_ptr<const TokenScorer> oracle_scorer(const LoadedModel& model, const RunRequest& request,
                                                 std::vector<std::int32_t> prompt, int n_positions, const Hooks& hooks);

/// log(1e-6 + effect) of every token of a text by a dense pass over it, [n_layers][n_kv_heads][ids]; NaN for tokens
/// that no query behind the window sees.
HeadSeries<float> oracle_targets(const LoadedModel& model, std::span<const std::int32_t> ids, const OracleSpec& spec,
                                 int window, const Hooks& hooks = {});

}  // namespace kvscope::engine
