#pragma once
// What a benchmark measures: a model from a folder or of a published shape with random weights, and runs on it.

#include "engine/core/support/json_file.h"
#include "engine/decode/generation.h"
#include "engine/jobs/job.h"

namespace kvscope::engine {

/// By the arguments "model" or "shape", "device" and "dtype". A shape gets positions for `n_positions` tokens whatever
/// its makers allow, and a scorer whose delay is the window of `policy`. Throws Error.
LoadedModel load_bench_model(const JsonObject& args, JobContext& context, int n_positions, const std::string& policy);

/// Without a policy given: everything kept, and a quarter of the prompt where the model has a scorer.
std::vector<std::string> default_policies(const LoadedModel& model, int prompt_tokens);

/// n_tokens of bench_prompt() and max_tokens more, whatever they are, under a policy.
RunRequest bench_request(const LoadedModel& model, const std::string& policy, int n_tokens, int max_tokens);

}  // namespace kvscope::engine
