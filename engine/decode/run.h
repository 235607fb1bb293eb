#pragma once
// A whole run: prefill, decode, and the dense teacher beside it.

#include "engine/decode/run_in_flight.h"

namespace kvscope::engine {

/// The policy as it would run on the model: ActivePolicy::resolved().
PolicySpec resolved_policy(const PolicySpec& policy, const LoadedModel& model);

/// Runs `request` to its end. Throws what Generation throws.
RunEnded execute_run(const LoadedModel& model, const RunRequest& request, const RunSink& sink = {});

/// The same, gathered into a record (ids, pieces, lifetimes, scores, contests and, if asked for, oracle and output error).
/// The oracle looks at the end alone.
RunRecord record_run(const LoadedModel& model, const RunRequest& request, const Hooks& hooks = {},
                     bool prompt_logprobs = true);

/// The record that record_run() begins with, for sink_into().
RunRecord empty_record(const LoadedModel& model, const RunRequest& request);

}  // namespace kvscope::engine
