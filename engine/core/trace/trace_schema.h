#pragma once
// The trace format, version 6. This header is the format: writer, reader, validator and repack are loops over kSchema.
//
// A trace is one HDF5 file with many runs of one model. Ragged data stand one run after the other along an axis that
// all runs share (tokens, contests, reads, bytes), in any order; run i owns the half-open range that a span dataset
// names, begin first:
//
//     a, b = f["runs/token_span"][i];   f["heads/evict_at"][layer, kv_head, a:b]
//
// Beside the datasets of kSchema a file has
//
//     /                attributes format = "kvscope-trace", version, status ("partial" | "complete" | "merged"),
//                      created_by, git_revision, planned_runs; NX_class, default for h5web, silx and NeXpy
//     /README          how to read it, with h5py, in ten lines
//     /committed       int64 scalar: runs 0 ... committed - 1 are whole. What stands behind them means nothing
//     /model           attributes: what ModelInfo says of the model; what scored a run stands with the run
//     /capture         attributes: what CaptureInfo says of the list of prompts that the runs come from
//     /shards          (merged files) name, filled, of_run: see trace_shards.h
//     /heads/layer, /heads/kv_head   axis values for NXdata
//     /summary/density (complete files) NXdata: mean over the runs of the density of each head at its last position
//
// "partial" is the layout while runs are added: every dataset contiguous and preallocated to its capacity, nothing but
// rows and `committed` written after the first flush. "complete" is the same schema trimmed to size, chunked, shuffle +
// deflate. "merged" has small datasets of its own, and the large ones as virtual datasets over shards in the same
// folder. Readers need not care which one they have: they read `committed` and the spans.
//
// A file of an older version lacks the datasets that are newer (DatasetSchema::since); what its runs are taken to have
// said instead stands in run_decode.cpp. A file keeps its version: whoever goes on with one writes what it has.
//
// Strings are bytes (UTF-8 unless a token cut a character in two): fixed-length attributes, and byte pools with spans.
// Everything is little-endian. No variable-length types, no references, no links but hard ones, no external storage.

#include <array>
#include <cstdint>
#include <ranges>

namespace kvscope::trace {

inline constexpr int kVersion = 6;
inline constexpr char kFormat[] = "kvscope-trace";

/// What a dimension of a dataset counts. run ... piece_byte grow while runs are added.
enum class Axis : std::uint8_t { none, run, token, contest, read, page, text_byte, piece_byte, layer, kv_head, pair };
inline constexpr int kAxes = 11;
inline constexpr std::array<const char*, kAxes> kAxisNames = {"",     "run",  "token", "contest", "read",     "page",
                                                              "byte", "byte", "layer", "kv_head", "begin_end"};
inline constexpr bool grows(Axis axis) { return axis >= Axis::run && axis <= Axis::piece_byte; }

enum class Type : std::uint8_t { u8, i16, i32, i64, u64, f32, f64 };
inline constexpr int size_of(Type type) {
  constexpr int kSizes[] = {1, 2, 4, 8, 8, 4, 8};
  return kSizes[static_cast<int>(type)];
}

/// Names of the datasets in code; kSchema gives paths.
enum class Dataset : int {
  token_span,
  contest_span,
  read_span,
  read_page_span,
  piece_bytes_span,
  prompt_text_span,
  policy_span,
  message_span,
  command_line_span,
  started_utc_span,
  policy_json_span,
  changes_span,
  oracle_span,
  scorer_kind_span,
  scorer_span,
  status,
  prompt_index,
  n_positions,
  prompt_len,
  chunk,
  n_pieces,
  n_logprobs,
  oracle_horizon,
  n_queries,
  output_error_queries,
  temperature,
  sampling_top_k,
  sampling_top_p,
  sampling_min_p,
  repetition_penalty,
  seed,
  load_s,
  prefill_s,
  decode_s,
  decode_steps,
  instrumented,
  scorer_delay,
  n_sink,
  window,
  top_k,
  log_gamma,
  decay_stride,
  evict_at_length,
  score_length,
  future_mass_length,
  oracle_evict_at_length,
  future_rms_length,
  future_max_length,
  value_norm_length,
  output_mean_length,
  output_rms_length,
  output_max_length,
  local_heads,
  head_log_gamma,
  head_threshold,
  density,
  recall,
  mass_recall,
  chance,
  mass_kept,
  recall_known,
  recall_so_far,
  checksum,
  text,
  token_id,
  token_logprob,
  piece_span,
  piece_bytes,
  evict_at,
  score,
  future_mass,
  oracle_evict_at,
  future_rms,
  future_max,
  value_norm,
  output_mean,
  output_rms,
  output_max,
  eviction_verdict,
  group_damage,
  layer_damage,
  layer_output,
  read_mass,
  best_read_mass,
  contest_q,
  contest_layer,
  contest_kv_head,
  contest_newcomer,
  contest_boundary,
  contest_newcomer_effective,
  contest_boundary_effective,
  contest_evicted,
  read_q,
  read_layer,
  read_kv_head,
  page_span,
  page,
  count_
};
inline constexpr int kDatasets = static_cast<int>(Dataset::count_);

struct DatasetSchema {
  Dataset id;
  const char* path;
  Type type;
  std::array<Axis, 3> axes;  // outermost first; none behind the last
  const char* units;         // "" for pure numbers
  const char* meaning;
  int since = 1;         // version of the format that it came with
  int until = kVersion;  // and the last that has it
  constexpr bool is_in(int version) const { return since <= version && version <= until; }
  constexpr int rank() const {
    return axes[0] == Axis::none ? 0 : axes[1] == Axis::none ? 1 : axes[2] == Axis::none ? 2 : 3;
  }
};

// clang-format off
inline constexpr std::array<Axis, 3> kPerRun = {Axis::run}, kRunSpan = {Axis::run, Axis::pair},
    kRunHead = {Axis::run, Axis::layer, Axis::kv_head}, kPerToken = {Axis::token},
    kHeadToken = {Axis::layer, Axis::kv_head, Axis::token}, kLayerToken = {Axis::layer, Axis::token},
    kPerContest = {Axis::contest},
    kPerRead = {Axis::read};

/// 2147483647 (kNever) and 2147483646 (kUndecided) are the two marks of a lifetime, see lifetime_map.h.
inline constexpr std::array<DatasetSchema, kDatasets> kSchema = {{
  // runs: where the parts of run i stand
  {Dataset::token_span, "runs/token_span", Type::i64, kRunSpan, "", "range of the run's tokens in tokens/* and heads/*; token position 0 is the begin"},
  {Dataset::contest_span, "runs/contest_span", Type::i64, kRunSpan, "", "range of the run's contests in contests/*"},
  {Dataset::read_span, "runs/read_span", Type::i64, kRunSpan, "", "range of the run's page reads in reads/q, layer, kv_head and page_span"},
  {Dataset::read_page_span, "runs/read_page_span", Type::i64, kRunSpan, "", "range of all pages of the run's reads in reads/page"},
  {Dataset::piece_bytes_span, "runs/piece_bytes_span", Type::i64, kRunSpan, "", "range of the run's pieces in tokens/piece_bytes: prompt and answer as one byte string"},
  {Dataset::prompt_text_span, "runs/prompt_text_span", Type::i64, kRunSpan, "", "range in runs/text: the prompt as it was given"},
  {Dataset::policy_span, "runs/policy_span", Type::i64, kRunSpan, "", "range in runs/text: the policy that the run began with, NAME:key=value,..."},
  {Dataset::message_span, "runs/message_span", Type::i64, kRunSpan, "", "range in runs/text: why the run failed"},
  {Dataset::command_line_span, "runs/command_line_span", Type::i64, kRunSpan, "", "range in runs/text: the command that repeats this run"},
  {Dataset::started_utc_span, "runs/started_utc_span", Type::i64, kRunSpan, "", "range in runs/text: ISO 8601"},
  {Dataset::policy_json_span, "runs/policy_json_span", Type::i64, kRunSpan, "", "range in runs/text: the policy as JSON: name, parameters, budget in three units, geometry"},
  {Dataset::changes_span, "runs/changes_span", Type::i64, kRunSpan, "", "range in runs/text: policy changes during the run, one per line: first query, tab, policy; empty if there were none"},
  {Dataset::oracle_span, "runs/oracle_span", Type::i64, kRunSpan, "", "range in runs/text: how the future attention is counted, and which oracle judges the run: agg=...,mass=...,weight=...,capacity=...,budget=...,lse=...,ahead=...,kinds=..."},
  {Dataset::scorer_kind_span, "runs/scorer_kind_span", Type::i64, kRunSpan, "", "range in runs/text: kind of the gate that gave this run's scores (kvpop_mlstm); empty if nothing did", 2},
  {Dataset::scorer_span, "runs/scorer_span", Type::i64, kRunSpan, "", "range in runs/text: what produced this run's scores, in words; if nothing did, the gates that the model has"},
  // runs: what was asked and how it went
  {Dataset::status, "runs/status", Type::u8, kPerRun, "", "0 running, 1 complete, 2 cancelled, 3 failed"},
  {Dataset::prompt_index, "runs/prompt_index", Type::i32, kPerRun, "", "index in the capture's list of the prompt that the run answers, from 0; -1: a separate run"},
  {Dataset::n_positions, "runs/n_positions", Type::i32, kPerRun, "tokens", "prompt + new tokens at most; what keep= and compression= refer to"},
  {Dataset::prompt_len, "runs/prompt_len", Type::i32, kPerRun, "tokens", "prompt tokens"},
  {Dataset::chunk, "runs/chunk", Type::i32, kPerRun, "tokens", "for a text that was only read: the policy acted after every so many tokens, from the first; 0: the prompt as in a run under the policy, then after each token", 6},
  {Dataset::n_pieces, "runs/n_pieces", Type::i32, kPerRun, "tokens", "tokens whose bytes are known"},
  {Dataset::n_logprobs, "runs/n_logprobs", Type::i32, kPerRun, "tokens", "tokens whose logprob was recorded; later ones are padding"},
  {Dataset::oracle_horizon, "runs/oracle_horizon", Type::i32, kPerRun, "tokens", "queries that the oracle has seen"},
  {Dataset::n_queries, "runs/n_queries", Type::i32, kPerRun, "tokens", "positions that were fed to the model; 0: not known"},
  {Dataset::output_error_queries, "runs/output_error_queries", Type::i32, kPerRun, "tokens", "queries for which heads/group_damage, layers/damage and layers/output have values; the rest is padding; 0: not measured", 3},
  {Dataset::temperature, "runs/temperature", Type::f64, kPerRun, "", "0 is greedy"},
  {Dataset::sampling_top_k, "runs/sampling_top_k", Type::i32, kPerRun, "tokens", "0: all"},
  {Dataset::sampling_top_p, "runs/sampling_top_p", Type::f64, kPerRun, "", "1: all"},
  {Dataset::sampling_min_p, "runs/sampling_min_p", Type::f64, kPerRun, "", "least probability as a share of the greatest; 0: all"},
  {Dataset::repetition_penalty, "runs/repetition_penalty", Type::f64, kPerRun, "", "divides positive logits of tokens seen before, multiplies negative ones; 1: none"},
  {Dataset::seed, "runs/seed", Type::u64, kPerRun, "", "seed of the sampling"},
  {Dataset::load_s, "runs/load_s", Type::f64, kPerRun, "s", "loading the model"},
  {Dataset::prefill_s, "runs/prefill_s", Type::f64, kPerRun, "s", "prefill"},
  {Dataset::decode_s, "runs/decode_s", Type::f64, kPerRun, "s", "all decode steps"},
  {Dataset::decode_steps, "runs/decode_steps", Type::i32, kPerRun, "", "steps that decode_s covers"},
  {Dataset::instrumented, "runs/instrumented", Type::u8, kPerRun, "", "1: recording and oracle were on, so the timings include them"},
  {Dataset::scorer_delay, "runs/scorer_delay", Type::i32, kPerRun, "tokens", "the score of token t was read out at query t + delay; -1: not known", 2},
  {Dataset::n_sink, "runs/n_sink", Type::i32, kPerRun, "tokens", "derived from the policy: sinks; -1 if it has no geometry"},
  {Dataset::window, "runs/window", Type::i32, kPerRun, "tokens", "derived from the policy: window"},
  {Dataset::top_k, "runs/top_k", Type::i32, kPerRun, "tokens", "derived from the policy: long-range slots of each head"},
  {Dataset::log_gamma, "runs/log_gamma", Type::f64, kPerRun, "1/token", "derived from the policy: decay of the effective score"},
  {Dataset::decay_stride, "runs/decay_stride", Type::i32, kPerRun, "tokens", "derived from the policy: n of KVpop eq. 5"},
  {Dataset::evict_at_length, "runs/evict_at_length", Type::i32, kRunHead, "tokens", "recorded tokens of each row of heads/evict_at, the rest is padding; fewer than the run has only if it failed; -1: the run has none"},
  {Dataset::score_length, "runs/score_length", Type::i32, kRunHead, "tokens", "the same for heads/score"},
  {Dataset::future_mass_length, "runs/future_mass_length", Type::i32, kRunHead, "tokens", "the same for heads/future_mass"},
  {Dataset::oracle_evict_at_length, "runs/oracle_evict_at_length", Type::i32, kRunHead, "tokens", "the same for heads/oracle_evict_at", 1, 2},
  {Dataset::future_rms_length, "runs/future_rms_length", Type::i32, kRunHead, "tokens", "the same for heads/future_rms", 3},
  {Dataset::future_max_length, "runs/future_max_length", Type::i32, kRunHead, "tokens", "the same for heads/future_max", 3},
  {Dataset::value_norm_length, "runs/value_norm_length", Type::i32, kRunHead, "tokens", "the same for heads/value_norm", 3},
  {Dataset::output_mean_length, "runs/output_mean_length", Type::i32, kRunHead, "tokens", "the same for heads/output_mean", 3},
  {Dataset::output_rms_length, "runs/output_rms_length", Type::i32, kRunHead, "tokens", "the same for heads/output_rms", 3},
  {Dataset::output_max_length, "runs/output_max_length", Type::i32, kRunHead, "tokens", "the same for heads/output_max", 3},
  {Dataset::local_heads, "runs/local_heads", Type::u8, kRunHead, "", "1: a local head, which keeps sinks and window only; 0: not a local head; 255: the policy treats all heads alike", 2},
  {Dataset::head_log_gamma, "runs/head_log_gamma", Type::f32, kRunHead, "1/token", "learned decay of the effective score, separate for each head (KVpop eq. 21); log_gamma is then 0. NaN in all heads: the run uses log_gamma", 3},
  {Dataset::head_threshold, "runs/head_threshold", Type::f32, kRunHead, "", "threshold found for the policy's density, for each head; NaN in all heads: the policy has no density", 5},
  {Dataset::density, "runs/density", Type::f32, kRunHead, "", "|kept, t <= q - window| / |{t <= q - window}| at the last position q; NaN for 0 / 0"},
  {Dataset::recall, "runs/recall", Type::f32, kRunHead, "", "|kept and oracle| / |oracle| over n_sink <= t <= q - window at the last position q, of the run's oracle (runs/oracle_span); NaN where nothing was chosen (version 3 on; before it the oracle was a running top-k of the policy's own top_k)"},
  {Dataset::mass_recall, "runs/mass_recall", Type::f32, kRunHead, "", "future mass of what is kept / that of what the oracle holds, over the same tokens; NaN where nothing was chosen (version 3 on, as recall)"},
  {Dataset::chance, "runs/chance", Type::f32, kRunHead, "", "|kept| / |eligible| at the last position: the recall of as many tokens drawn at random; NaN where nothing was chosen", 3},
  {Dataset::mass_kept, "runs/mass_kept", Type::f32, kRunHead, "", "future mass of what is kept / that of all eligible tokens at the last position", 3},
  {Dataset::recall_known, "runs/recall_known", Type::u8, kPerRun, "", "1: recall_so_far has values"},
  {Dataset::recall_so_far, "runs/recall_so_far", Type::f32, kRunHead, "", "recall as the engine last reported it; only for runs that stopped before the oracle was complete"},
  {Dataset::checksum, "runs/checksum", Type::u64, kPerRun, "", "FNV-1a 64 over the attributes of /model but scorer, then the run's part of every other dataset of the file's version, in the order of the format"},
  {Dataset::text, "runs/text", Type::u8, {Axis::text_byte}, "", "UTF-8 of all texts of all runs"},
  // tokens
  {Dataset::token_id, "tokens/id", Type::i32, kPerToken, "", "token id"},
  {Dataset::token_logprob, "tokens/logprob", Type::f32, kPerToken, "nat", "log-probability given the tokens before; NaN for the first"},
  {Dataset::piece_span, "tokens/piece_span", Type::i64, {Axis::token, Axis::pair}, "", "range of the token's bytes in tokens/piece_bytes"},
  {Dataset::piece_bytes, "tokens/piece_bytes", Type::u8, {Axis::piece_byte}, "", "the tokens' bytes; one token may be a part of a character"},
  // heads
  {Dataset::evict_at, "heads/evict_at", Type::i32, kHeadToken, "position", "first query position that can no longer see the token; 2147483647 kept, 2147483646 still in the window"},
  {Dataset::score, "heads/score", Type::f32, kHeadToken, "", "raw score; NaN: no score"},
  {Dataset::future_mass, "heads/future_mass", Type::f32, kHeadToken, "", "mean future attention, over the query heads of the group as agg in runs/oracle_span; NaN where none"},
  {Dataset::oracle_evict_at, "heads/oracle_evict_at", Type::i32, kHeadToken, "position", "lifetimes by the oracle of versions 1 and 2, a running top-k of the policy's own top_k, as evict_at", 1, 2},
  {Dataset::future_rms, "heads/future_rms", Type::f32, kHeadToken, "", "root mean square of the future attention, over the group as future_mass; NaN where none", 3},
  {Dataset::future_max, "heads/future_max", Type::f32, kHeadToken, "", "maximum of the future attention, likewise", 3},
  {Dataset::value_norm, "heads/value_norm", Type::f32, kHeadToken, "", "|v| of the token, as the dense teacher has it", 3},
  {Dataset::output_mean, "heads/output_mean", Type::f32, kHeadToken, "", "mean future attention of each query head times |W_o v| over the layer's mean |o W_o|, over the group as future_mass", 3},
  {Dataset::output_rms, "heads/output_rms", Type::f32, kHeadToken, "", "the same with the root mean square", 3},
  {Dataset::output_max, "heads/output_max", Type::f32, kHeadToken, "", "the same with the maximum", 3},
  {Dataset::eviction_verdict, "heads/eviction_verdict", Type::u8, kHeadToken, "", "the oracle at evict_at: 0 would not have the token (right eviction), 1 would (wrong); 2 and 3 the same by an oracle of 25 % of the run, where the head kept nothing; 255 not judged", 3},
  {Dataset::group_damage, "heads/group_damage", Type::f32, kHeadToken, "", "|D_g| of the query at this position: D_g = sum over the KV head's query heads of (o_full - o_kept) W_o, attention over all tokens before less that over the kept and read ones; NaN where none is evicted or unread. output error of a head = sqrt(sum |D_g|^2 / sum |o W_o|^2) over the queries that have one", 3},
  // layers: the same of a layer's whole attention
  {Dataset::layer_damage, "layers/damage", Type::f32, kLayerToken, "", "|D| of the query at this position, D = sum over the KV heads of D_g; NaN where none is evicted or unread", 3},
  {Dataset::layer_output, "layers/output", Type::f32, kLayerToken, "", "|o W_o| of the query at this position: the layer's attention output over all tokens before, bias left out", 3},
  {Dataset::read_mass, "heads/read_mass", Type::f32, kHeadToken, "", "of the query at this position in a head that reads pages: share of its dense attention on the tokens before its own page, mean over the group, that lies on the pages it read; NaN where it read all or there is none", 3},
  {Dataset::best_read_mass, "heads/best_read_mass", Type::f32, kHeadToken, "", "the same for the best choice of as many pages", 3},
  // contests: one row a decision at the boundary; q ascends within a run's head
  {Dataset::contest_q, "contests/q", Type::i32, kPerContest, "position", "query position of the decision"},
  {Dataset::contest_layer, "contests/layer", Type::i16, kPerContest, "", "layer"},
  {Dataset::contest_kv_head, "contests/kv_head", Type::i16, kPerContest, "", "KV head"},
  {Dataset::contest_newcomer, "contests/newcomer", Type::i32, kPerContest, "position", "token that leaves the window"},
  {Dataset::contest_boundary, "contests/boundary", Type::i32, kPerContest, "position", "weakest kept token; -1 while the cache is not full"},
  {Dataset::contest_newcomer_effective, "contests/newcomer_effective", Type::f32, kPerContest, "", "the newcomer's score as compared at q, decay included; for policies that evict the token with the least attention (TOVA, H2O): the least attention of the other tokens that could have been evicted, NaN without one (version 4 on; the newcomer's before it); for a pooled budget: the lowest score that stayed in any head"},
  {Dataset::contest_boundary_effective, "contests/boundary_effective", Type::f32, kPerContest, "", "the boundary's score as compared at q"},
  {Dataset::contest_evicted, "contests/evicted", Type::i32, kPerContest, "position", "newcomer, boundary or -1"},
  // reads: one row a query of a head whose policy reads selected pages of 16 slots; q ascends within a run's head
  {Dataset::read_q, "reads/q", Type::i32, kPerRead, "position", "query position that read"},
  {Dataset::read_layer, "reads/layer", Type::i16, kPerRead, "", "layer"},
  {Dataset::read_kv_head, "reads/kv_head", Type::i16, kPerRead, "", "KV head"},
  {Dataset::page_span, "reads/page_span", Type::i64, {Axis::read, Axis::pair}, "", "range of the pages it read in reads/page"},
  {Dataset::page, "reads/page", Type::i32, {Axis::page}, "", "slot / 16, which is position / 16 unless the policy evicts too"},
}};
// clang-format on

/// kSchema stands in the order of Dataset, so that a Dataset is also its index.
consteval bool schema_is_ordered() {
  for (int i = 0; i < kDatasets; ++i)
    if (static_cast<int>(kSchema[i].id) != i) return false;
  return true;
}
static_assert(schema_is_ordered());

inline constexpr const DatasetSchema& schema(Dataset id) { return kSchema[static_cast<int>(id)]; }

/// The datasets of a file of that version.
inline auto datasets_of(int version) {
  return std::views::filter(kSchema, [version](const DatasetSchema& dataset) { return dataset.is_in(version); });
}

/// The groups that they stand in.
inline constexpr std::array<const char*, 6> kGroups = {"runs", "tokens", "heads", "contests", "reads", "layers"};
inline auto groups_of(int version) { return std::views::take(kGroups, version < 3 ? 5 : 6); }

/// How long each axis is: of a file's datasets, or how much of each one run has.
struct Extents {
  std::array<std::int64_t, kAxes> size{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  std::int64_t& operator[](Axis axis) { return size[static_cast<int>(axis)]; }
  std::int64_t operator[](Axis axis) const { return size[static_cast<int>(axis)]; }
};

/// The part of every axis that one run owns. layer, kv_head and pair are whole.
struct Slice {
  Extents begin{{}};
  Extents count;
};

/// How long a file's axes are (of a partial trace, its capacity), and how far its committed runs fill them.
struct TraceRows {
  Extents extents, filled;
};

/// Elements of `dataset` within `extents`.
constexpr std::int64_t n_elements(const DatasetSchema& dataset, const Extents& extents) {
  std::int64_t n = 1;
  for (int d = 0; d < dataset.rank(); ++d) n *= extents[dataset.axes[d]];
  return n;
}

/// The first and the last of the spans of a run's texts, which stand one after the other in runs/text (kRunTexts).
inline constexpr Dataset kFirstText = Dataset::prompt_text_span, kLastText = Dataset::scorer_span;

/// Spans of a run on the other growing axes.
struct AxisSpan {
  Dataset span;
  Axis axis;
};
inline constexpr std::array<AxisSpan, 5> kAxisSpans = {{{Dataset::token_span, Axis::token},
                                                        {Dataset::contest_span, Axis::contest},
                                                        {Dataset::piece_bytes_span, Axis::piece_byte},
                                                        {Dataset::read_span, Axis::read},
                                                        {Dataset::read_page_span, Axis::page}}};

}  // namespace kvscope::trace
