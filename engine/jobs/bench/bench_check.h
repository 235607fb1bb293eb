#pragma once
// Every benchmark compares its result with a definition before it measures.

#include <span>
#include <string>

#include "engine/core/record/run_record.h"
#include "engine/decode/generation.h"

namespace kvscope::engine {

/// max |found - expected| / max(|expected|, least). Throws Error (internal) if that is more than rounding explains: 1e-3 in
/// float32, 0.1 in bfloat16, where a near tie may also be decided otherwise; likewise if a number is missing on one
/// side (NaN) or the sizes differ.
double check_close(std::span<const float> found, std::span<const float> expected, const LoadedModel& model,
                   const std::string& bench, const std::string& where, double least = 0);

/// Passes a prompt through the model twice: in chunks as it is measured, and at once by the definition (scores of the
/// whole prompt, lifetimes from them by policy_lifetimes(), masked attention over all keys). Compares the next token's
/// logits.
double check_prefill(const LoadedModel& model, const RunRequest& request, const PrefillOptions& options);

/// Passes the tokens of a run through the model at once, its lifetimes as the mask of attention over all keys, and
/// compares the log-probabilities of its newest tokens, 64 at most, as parts of the greatest logit: of that, rounding is
/// a part. (A random model that repeats itself has log-probabilities near 0.) For policies that choose no pages to read.
double check_record(const LoadedModel& model, const RunRecord& run, const std::string& bench);

/// The same mean attention of later queries by the teacher, in chunks, and by its definition: the whole matrix of
/// probabilities in float32.
double check_oracle(const LoadedModel& model, std::span<const std::int32_t> ids, int window);

}  // namespace kvscope::engine
