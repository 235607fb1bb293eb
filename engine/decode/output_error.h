#pragma once
// What eviction did to the output of every layer's attention, query by query: one more pass over a run's own tokens. No
// LibTorch here.

#include <vector>

#include "engine/core/record/run_facts.h"
#include "engine/decode/hooks.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::engine {

/// Follows `run`, whose lifetimes and page reads are recorded, with its own tokens (teacher forcing). Every layer goes on
/// with the output that the run had, o_kept, so that q, k and v are the run's own, evicted keys included; beside it
///
///     d_h = o_full,h - o_kept,h = Z_e / (Z_k + Z_e) (o_e,h - o_k,h)        of query head h
///
/// from one further attention over what the query had lost (e: evicted or unread) and the two log-sum-exps. No
/// difference of nearly equal numbers is taken, so that rounding of o sets no floor. W_o and the norms are in float32;
/// the bias of W_o, if any, is left out. Memory is O(tokens) a layer, in chunks, never tokens^2.
///
/// logprobs: if given, [n_queries] of this pass, NaN for the first: they are the run's own, up to the order of sums.
/// Throws Error (cancelled) when the hook says so, which is asked once a layer and chunk; progress is "output error".
OutputErrorFacts measure_output_error(const LoadedModel& model, const RunRecord& run, const Hooks& hooks = {},
                                      std::vector<float>* logprobs = nullptr);

}  // namespace kvscope::engine
