#pragma once
// The benchmarks and what they share: their arguments, a model from a folder or of a published shape with random
// weights, the requests, and the loop over policies.

#include <nlohmann/json.hpp>

#include "engine/core/support/json_file.h"
#include "engine/decode/generation.h"
#include "engine/jobs/job.h"

namespace kvscope::engine {

/// Milliseconds a token of decoding behind a context: policies, recording off and on, beside what the memory allows.
/// Arguments: model or shape, device, dtype, prompt_tokens (the context, really prefilled), max_tokens (of one repeat),
/// repeats, batch (sequences at once, 1 ... 32), policy (all that fit by default). One row per policy, after a check of
/// decode steps against a prefill of the same tokens. Repeats with recording off and on take turns in one run, so that
/// both see the same contexts:
///
///     floor   bytes that a step must read (weights, kept keys and values, scorer) at the read rate measured here, on a
///             CPU before and after each repeat: what others leave of its memory changes from second to second
nlohmann::json decode_bench(const JsonObject& args, JobContext& context);

/// Tokens per second of a prompt in chunks, beside what the device could do. Arguments: model or shape, device, dtype,
/// prompt_tokens, chunk (0: by itself), policy (all that fit by default), repeats. One row per policy, after a check of
/// the result on a prefix (check_prefill()):
///
///     floor     operations of the layers' products and of the visible (query, key) pairs, at the matrix rate measured
///     library   time measured of the same products alone, plus that of the library's causal attention over the prompt
nlohmann::json prefill_bench(const JsonObject& args, JobContext& context);

/// Passes a prompt through the model twice: in chunks as it is measured, and at once by the definition (scores of the
/// whole prompt, lifetimes from them by policy_lifetimes(), masked attention over all keys). Returns max |a - b| /
/// max |b| of the next token's logits. Throws Error (internal) if that is more than rounding explains: 1e-3 in float32,
/// 0.1 in bfloat16, where a near tie may also be decided otherwise.
double check_prefill(const LoadedModel& model, const RunRequest& request, const PrefillOptions& options);

constexpr int kMaxBenchTokens = 1 << 24;

/// What both ask for.
struct BenchArgs {
  explicit BenchArgs(const JsonObject& args);
  int prompt_tokens, repeats;
  std::vector<std::string> policies;  // empty: default
};

/// By the arguments "model" (with "gates") or "shape", "device" and "dtype". A shape gets positions for `n_positions` tokens whatever
/// its makers allow, and a scorer whose delay is the window of the policy, or of `default_policy`. Throws Error.
LoadedModel load_bench_model(const JsonObject& args, JobContext& context, int n_positions, const char* default_policy);

/// n_tokens that are the same for everyone, spread over the vocabulary, and max_tokens more, whatever they are, under a
/// policy.
RunRequest bench_request(const LoadedModel& model, const std::string& policy, int n_tokens, int max_tokens);

/// One row per policy; without a policy given, everything kept, and a quarter of the prompt where the model has a
/// scorer. `bench_policy` returns null if cancelled. Returns `facts` with "status", the model's name, device and dtype,
/// "repeats" and "rows"; if cancelled, status and rows alone.
nlohmann::json bench_rows(const LoadedModel& model, const BenchArgs& args, const JobContext& context,
                          nlohmann::json facts,
                          const std::function<nlohmann::json(const std::string& policy)>& bench_policy,
                          std::string (*row_text)(const nlohmann::json& row));

}  // namespace kvscope::engine
