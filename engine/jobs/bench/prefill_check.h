#pragma once
// Whether a prompt in chunks is what its definition says, asked before it is timed.

#include "engine/decode/generation.h"

namespace kvscope::engine {

/// Passes a prompt through the model twice: in chunks as it is measured, and at once by the definition (scores of the
/// whole prompt, lifetimes from them by policy_lifetimes(), masked attention over all keys). Returns max |a - b| /
/// max |b| of the next token's logits. Throws Error (internal) if that is more than rounding explains: 1e-3 in float32,
/// 0.1 in bfloat16, where a near tie may also be decided otherwise.
double check_prefill(const LoadedModel& model, const RunRequest& request, const PrefillOptions& options);

}  // namespace kvscope::engine
