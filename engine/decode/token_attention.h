#pragma once
// A dense pass over a text that keeps, in one layer, the columns of chosen tokens of the softmax matrix.

#include "engine/core/record/token_attention.h"
#include "engine/decode/hooks.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::engine {

/// Costs a dense pass up to that layer, in chunks of queries; memory O(n) a layer, never n x n.
///
/// Throws Error: (usage) a layer, token or id that is none, no tokens or more than kMostTokens; (cancelled) when the hook
/// says so.
TokenAttention token_attention(const LoadedModel& model, const TokenAttentionRequest& request, const Hooks& hooks = {});

}  // namespace kvscope::engine
