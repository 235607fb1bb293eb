#pragma once
// A dense pass over a text that keeps the last row of every layer's softmax matrix.

#include "engine/core/record/query_attention.h"
#include "engine/decode/hooks.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::engine {

/// Costs a dense pass, in chunks of queries; memory O(n) a layer, never n x n.
///
/// Throws Error: (usage) an id that is none, no ids, or more than a message can answer; (cancelled) when the hook says so.
QueryAttention query_attention(const LoadedModel& model, const QueryAttentionRequest& request, const Hooks& hooks = {});

}  // namespace kvscope::engine
