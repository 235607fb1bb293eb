#pragma once
// Rows of decoding: one policy and one batch each. decode, batch, ragged and policy differ in which.

#include "engine/jobs/bench/bench.h"

namespace kvscope::engine {

struct DecodeArgs : BenchArgs {
  explicit DecodeArgs(const JsonObject& args);
  int n_steps() const;
  int n_positions() const { return prompt_tokens + n_steps(); }
  int max_tokens;
};

/// The rows of these cases, "of_full" in each if the first is the full cache and `beside_full` is asked for: milliseconds
/// a step as a multiple of that row's of the same batch.
nlohmann::json decode_rows(const LoadedModel& model, const DecodeArgs& args, const std::vector<BenchCase>& cases,
                           bool beside_full, JobContext& context);

/// max |a - b| / max |b| of the logits after prompts and a few steps of a batch, and after prompts of all these tokens:
/// of the first sequence and the last. Throws as check_close() does.
double check_steps(const LoadedModel& model, const std::string& policy, int prompt_tokens, int batch);

}  // namespace kvscope::engine
