#pragma once
// The benchmarks and what they share: their arguments, a model from a folder or of a published shape with random
// weights, the requests, and the loop over rows.
//
// Every benchmark takes model or shape, device, dtype, prompt_tokens, repeats and policy (one or a list), compares its
// result with a definition before it measures (bench_check.h), and gives each row
//
//     floor     what the device must at least read or compute (floors.h), at the rate measured in the same process
//     ratio     measured time / floor

#include <nlohmann/json.hpp>

#include "engine/core/support/json_file.h"
#include "engine/decode/generation.h"
#include "engine/jobs/job.h"

namespace kvscope::engine {

/// Milliseconds a token of decoding behind a context: policies, recording off and on, beside what the memory allows.
/// Further arguments: max_tokens (of one repeat), batch (sequences at once, 1 ... 32). One row per policy, after a check
/// of decode steps against a prefill of the same tokens. Repeats with recording off and on take turns in one run, so
/// that both see the same contexts:
///
///     floor   bytes that a step must read (weights, kept keys and values, scorer) at the read rate measured here, on a
///             CPU before and after each repeat: what others leave of its memory changes from second to second
nlohmann::json decode_bench(const JsonObject& args, JobContext& context);

/// The same, a row for each of several batches (batch: "1,8,32").
nlohmann::json batch_bench(const JsonObject& args, JobContext& context);

/// The same for caches whose heads keep different numbers of tokens, about a quarter by default, beside the full cache
/// of the same batch: "of_full" is their time as a share of the full cache's.
nlohmann::json ragged_bench(const JsonObject& args, JobContext& context);

/// The same for every policy that needs no trained gate, at a quarter of the tokens, and for those given, beside the
/// full cache.
nlohmann::json policy_bench(const JsonObject& args, JobContext& context);

/// Tokens per second of a prompt in chunks, beside what the device could do. Further argument: chunk (0: by itself). One
/// row per policy, after check_prefill() on a prefix:
///
///     floor     operations of the layers' products and of the visible (query, key) pairs, at the matrix rate measured
///     library   time measured of the same products alone, plus that of the library's causal attention over the prompt
nlohmann::json prefill_bench(const JsonObject& args, JobContext& context);

/// Seconds of the oracle over prompt_tokens tokens: its dense pass, and the part of it that adds up what keys get from
/// later queries. Of a policy only the window counts. After check_oracle() on a prefix.
///
///     floor     operations of products, dense attention and one more product of later queries and keys
nlohmann::json oracle_bench(const JsonObject& args, JobContext& context);

/// Seconds of recording `prompts` runs of prompt_tokens + max_tokens tokens each as the server does for `capture`,
/// messages included: shares of prompt, oracle, decoding and the rest. What the client does with them is not in it.
/// After check_record() of a first run.
///
///     floor     the sum of the floors of prompts, oracles and steps, one sequence at a time
nlohmann::json capture_bench(const JsonObject& args, JobContext& context);

/// Seconds of scoring prompt_tokens tokens while the policy acts after every `chunk` of them (1). After check_record()
/// on a prefix.
///
///     floor     that of reading them as a prompt
nlohmann::json score_bench(const JsonObject& args, JobContext& context);

/// A list of such rows that fit this device, each beside its goal; and those that do not, with the reason.
nlohmann::json scoreboard_bench(const JsonObject& args, JobContext& context);

constexpr int kMaxBenchTokens = 1 << 24;

/// What all ask for.
struct BenchArgs {
  explicit BenchArgs(const JsonObject& args, int default_tokens = 1024, int default_repeats = 5);
  int prompt_tokens, repeats;
  std::vector<std::string> policies;  // empty: default
};

/// By the arguments "model" (with "gates") or "shape", "device" and "dtype". A shape gets positions for `n_positions` tokens whatever
/// its makers allow, and a scorer whose delay is the window of the first KVpop among the policies, or of
/// `default_policy`. Throws Error, also if a model's context is too short.
LoadedModel load_bench_model(const JsonObject& args, JobContext& context, int n_positions, const char* default_policy);

/// n_tokens that are the same for everyone, spread over the vocabulary, and max_tokens more, whatever they are, under a
/// policy. Requests of another `index` have other tokens.
RunRequest bench_request(const LoadedModel& model, const std::string& policy, int n_tokens, int max_tokens,
                         int index = 0);

/// Everything kept, and a quarter of the prompt where the model has a scorer.
std::vector<std::string> default_policies(const LoadedModel& model, int prompt_tokens);

bool is_cancelled(const JobContext& context);

/// What one row measures.
struct BenchCase {
  std::string policy;
  int batch = 1;
};
/// One for each policy given, or for each of the `usual` ones.
std::vector<BenchCase> bench_cases(const BenchArgs& args, const std::vector<std::string>& usual, int batch = 1);

/// One row per case. `bench_case` returns null if cancelled. Returns `facts` with "status", the model's name, device and
/// dtype, "repeats" and "rows"; if cancelled, status and rows alone.
nlohmann::json bench_rows(const LoadedModel& model, const BenchArgs& args, const std::vector<BenchCase>& cases,
                          const JobContext& context, nlohmann::json facts,
                          const std::function<nlohmann::json(const BenchCase& one)>& bench_case,
                          std::string (*row_text)(const nlohmann::json& row));

}  // namespace kvscope::engine
