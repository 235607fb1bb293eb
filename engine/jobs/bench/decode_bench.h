#pragma once
// Milliseconds a token of decoding behind a context: policies, recording off and on, beside what the memory allows.

#include <nlohmann/json_fwd.hpp>

#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"

namespace kvscope::engine {

/// Arguments: model or shape, device, dtype, prompt_tokens (the context, really prefilled), max_tokens (of one repeat),
/// repeats, batch (sequences at once, 1 ... 32), policy (all that fit by default). One row per policy, after a check of
/// decode steps against a prefill of the same tokens. Repeats with recording off and on take turns in one run, so that
/// both see the same contexts:
///
///     floor   bytes that a step must read (weights, kept keys and values, scorer) at the read rate measured here
nlohmann::json decode_bench(const JsonObject& args, JobContext& context);

}  // namespace kvscope::engine
