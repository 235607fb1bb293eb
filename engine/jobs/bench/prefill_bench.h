#pragma once
// Tokens per second of a prompt in chunks, beside what the device could do.

#include <nlohmann/json_fwd.hpp>

#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"

namespace kvscope::engine {

/// Arguments: model or shape, device, dtype, prompt_tokens, chunk (0: by itself), policy (all that fit by default),
/// repeats. One row per policy, after a check of the result on a prefix (prefill_check.h):
///
///     floor     operations of the layers' products and of the visible (query, key) pairs, at the matrix rate measured
///     library   time measured of the same products alone, plus that of the library's causal attention over the prompt
nlohmann::json prefill_bench(const JsonObject& args, JobContext& context);

}  // namespace kvscope::engine
