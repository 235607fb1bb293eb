#pragma once
// The conversation between kvscope and kvscope-engine. This header is its definition; requests.h has the requests as
// structs, engine/core/record/run_facts.h the facts of a run.
//
// Every message is an object with "type" (string). Requests carry "id" (integer, chosen by the client); every event
// that belongs to a request repeats it. Arrays of numbers travel as CBOR byte strings of little-endian int32 or float32
// (pack() / unpack() below), so a message costs bytes, not tokens of text. Nothing that grows with tokens^2 crosses.
//
// The engine greets first:
//   hello      {version: kVersion, engine: "0.1.0", torch: "2.11.0", cuda: bool, device: text}, and as far as it says it
//              {name: text, serves: [text...], policies: [Declaration...], builtin_policies: [text...], default_policy: text, runs_at_once, gpus}: what people call it,
//              the services that it has (engine_offer.h), the policies that it declares (declaration.h), which of KVScope's
//              it can run, the text of the one that a new run starts with, and how many runs it takes at once (1). What else is absent is
//              KVScope's own: everything. gpus: how many it finds, cuda:0 and so on.
//
// Requests (client -> engine). Each ends in exactly one `done` or `error` event with its id, except that policy and
// cancel have no answer of their own:
//   load       {model: path, device: "auto"|"cpu"|"cuda", dtype: "auto"|"float32"|"bfloat16", gates: [path...]}
//                  -> progress*, warning*{text}, done{model: ModelInfo, load_s}, and from engines that say it {gates: {scorers: [{kind,
//                     numbers, delay}...], heads: numbers}}: what the gates that were loaded say of policies' parameters;
//                     {serves, policies, builtin_policies, default_policy, runs_at_once}: in the place of the greeting's until the next load;
//                     {local_layers: [{layer, window}...]}: whose queries see the newest `window` positions alone, by design
//   run        {prompt: text | prompt_ids: i32, raw: bool, policy: text, max_tokens, sampling: SamplingSpec,
//               oracle: bool, stop_at_eos: bool}, and each of these if it is wanted:
//               {oracle_spec: text, oracle_looks: bool, output_error: bool, changes: [{q, policy}...], stop: [text...], messages: [{role, content}...],
//               thinking: bool, date: text, answer_ids: i32, draw_on: bool, chunk, thresholds: f32, budgets: i32}
//                  -> started{...}, progress*, step*, oracle*, output_error, done{status, timings, text}
//              oracle_looks: false: one `oracle` event at the end, none on the way.
//              answer_ids: the answer, given instead of drawn; with draw_on its begin, behind which the run draws on. chunk: the prompt is all there is, read as `score` does.
//              thresholds, budgets: [layers][kv_heads] those of the heads when this run is had again or goes on, which are not
//              solved anew then; or budgets that the user gives.
//   score      {text | ids: i32}, and if wanted {policy: text, changes: [{q, policy}...], n_positions, prompt_len, chunk,
//               thresholds: f32, budgets: i32, choices: bool}
//                  -> progress*, done{ids, logprobs: f32, nll, density: f32, dense: bool, policy, prompt_len, chunk};
//                     with choices also {greedy: i32}, of a density {thresholds}, as `started` has them. policy: the one that the text was read under, as `started` has it.
//                     As far as it is counted {cache_size}: tokens held / tokens read, mean over heads and queries.
//              The policy acts from the first token on, after every `chunk` tokens (1); or, with prompt_len, that many
//              tokens pass as a run's prompt and the others one by one. done says which was done; dense: no query missed
//              a token. greedy: the likeliest token at each position given the true ones before it, -1 for the first;
//              density: [layers][kv_heads] at the last position. n_positions (with ids): what keep= and compression=
//              refer to, if not their number; prompt_len with ids too.
//   attention  {ids: i32, layer, tokens: i32}
//                  -> progress*, done{layer, n_heads, n_queries, tokens: i32, probability: f32 [tokens][heads][queries]}: what
//                     each of these tokens gets from every query of a full cache, NaN before it
//   query_attention {ids: i32}
//                  -> progress*, done{n_layers, n_kv_heads, n_tokens, probability: f32 [layers][kv_heads][ids]}: what the last of
//                     the ids, as the query, gives each of them under a full cache, mean over the query heads of the group
//   gate_scores {ids: i32}
//                  -> progress*, done{n_tokens, scorers: [{kind, numbers, delay, text, log_gamma: f32, scores: f32 [layers][kv_heads][ids]}...]}:
//                     what every loaded gate says of the text under a full cache
//   job        {job: "eval"|"train"|"bench", args: object} -> warning*{text}, progress*, row*{text, data}, done{result: object}
//   doctor     {}                                          -> done{checks: [{name, ok, text, hint}]}
//   policy     {target: id, policy: text}   Other parameters for a run that goes on, from its next step: a `policy`
//              event of the run says that they hold, or a `log` why not.
//   cancel     {target: id}   The target ends with done{status: "cancelled"}.
//   quit       {}             The engine exits 0.
//
// Runs may be under way at once, up to the greeting's runs_at_once; then their events interleave. Events of a run, in this order:
//   started    {n_positions, prompt_len, ids: i32, pieces: {bytes, offsets: i32}, policy: canonical text, scorer: text,
//              scorer_kind: text, scorer_delay, oracle_spec: text}, and where heads differ {heads: {n_sink, window,
//              top_k, locality: i32 [layers][kv_heads], log_gamma, threshold: f32 [layers][kv_heads]}}, each head's rule.
//              The policy is the one that runs: what the request did not write is the number of the gate. ids and
//              pieces are the prompt's; it is sent before prefill, so that they can be drawn at once.
//   step       One per batch of new facts: after prefill one for the whole prompt, then one per decode step.
//                n_tokens                       positions whose facts are complete after this step
//                ids: i32, pieces               new tokens, none of a prefill
//                logprobs_from, logprobs: f32   log-probabilities of positions logprobs_from ...
//                lifetimes: i32 [n][4]          (layer, kv_head, token, evict_at) that changed; all others are alive,
//                                               and undecided until the end
//                score_index: i32 [n][3]        (layer, kv_head, token) of each score
//                score_value: f32 [n]           and its value
//                contests: i32 [n][8]           (q, layer, kv_head, newcomer, boundary, evicted, bits of
//                                               newcomer_effective, bits of boundary_effective)
//                reads: i32                     (q, layer, kv_head, n, n pages) one after the other; only of a policy
//                                               that selects pages
//                heads                          as in `started`, where scores have divided a budget
//                seconds                        time of this step
//   policy     {q, policy: canonical text}      parameters were changed and hold from query q on
//   oracle     {horizon, recall: f32 [layers][kv_heads], final: bool}, and when final
//              {future_mass: f32 [layers][kv_heads][horizon]}, and as far as they were asked for future_rms,
//              future_max, value_norm, output_mean, output_rms, output_max, each like it
//   output_error  {n_queries, group_damage: f32 [layers][kv_heads][n_queries], layer_damage and layer_output: f32
//              [layers][n_queries]}             once, behind the last step, of a run that was asked for it
//
// Events of any request:
//   progress   {phase: "load"|"prefill"|"decode"|..., value, max, text}   load: bytes; prefill: tokens of the prompt
//   log        {text}                           a line for the log panel
//   warning    {text}                           what a model's files say that makes its numbers doubtful
//   error      {code: ExitCode, file, where, found, expected, hint}

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/core/protocol/requests.h"
#include "engine/core/record/run_facts.h"

namespace kvscope::protocol {

inline constexpr int kVersion = 2;  // 2: the rules of heads are one table

nlohmann::json pack(std::span<const std::int32_t> values);
nlohmann::json pack(std::span<const float> values);
nlohmann::json pack(const BytePool& pool);
std::vector<std::int32_t> unpack_i32(const nlohmann::json& message, const char* key);
std::vector<float> unpack_f32(const nlohmann::json& message, const char* key);

nlohmann::json to_json(const ModelInfo& info);
ModelInfo model_info_from_json(const nlohmann::json& json);
nlohmann::json to_json(const SamplingSpec& sampling);
SamplingSpec sampling_from_json(const nlohmann::json& json);

/// Applies an event of a run (started, step, oracle, output_error, done, error) to the record; unknown types are ignored. The same
/// function serves window, command line and tests, so that all see the same run. Throws Error if the event does not fit
/// the record (an index outside the model, say): an engine is not trusted to be well.
void apply_event(RunRecord& run, const nlohmann::json& event);

}  // namespace kvscope::protocol
