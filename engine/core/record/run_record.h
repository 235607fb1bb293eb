#pragma once
// Everything that is known of one run: what the window shows, what a trace stores, what figures are made from.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/lifetime/head_rule.h"
#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/lifetime/running_top_k.h"
#include "engine/core/record/asked.h"

namespace kvscope {

struct RetentionPlan;  // whose Selection would meet that of the views here

/// What a run has to say of the model it ran.
struct ModelInfo {
  std::string name;          // folder name
  std::string path;          // as the engine was given it
  std::string architecture;  // "Qwen3ForCausalLM"
  std::string dtype;         // that it computes in: "float32", "bfloat16"
  std::string device;        // "cpu", "cuda:0 NVIDIA H200"
  std::string weights_hash;  // hex of FNV-1a 64 over every safetensors header and the file sizes
  std::string scorer;        // all that it has, "kvpop mlstm, delay 64", empty if there is none
  int n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, vocab_size = 0, max_positions = 0;
  std::int64_t n_parameters = 0;

  /// Key and value of one token in one head's cache; 0 where the number format is not known.
  std::int64_t bytes_of_token() const {
    return dtype.empty() ? 0 : 2 * std::int64_t{head_dim} * (dtype == "float32" ? 4 : 2);
  }
};

/// What gave a run its scores.
struct ScorerInfo {
  std::string kind;  // "kvpop_mlstm", as in gate_file.h, or "random"; empty: not known
  int delay = -1;    // the score of token t is read out at query t + delay; -1: not known
  std::string text;  // "KVpop mLSTM, delay 64"; of a run without scores, what the model has
  std::string gate;  // "kvpop-mlstm": which gate of its kind; empty: none, or not known
  bool operator==(const ScorerInfo&) const = default;
};

/// Byte strings in one pool: token pieces may be parts of a character, so they are bytes, not text.
class BytePool {
 public:
  void push_back(std::string_view bytes) {
    bytes_.append(bytes);
    offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
  }
  std::size_t size() const { return offsets_.size() - 1; }
  std::string_view operator[](std::size_t i) const {
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  const std::string& bytes() const { return bytes_; }
  const std::vector<std::int64_t>& offsets() const { return offsets_; }  // [size + 1]

 private:
  std::string bytes_;
  std::vector<std::int64_t> offsets_{0};
};

/// What one query of a head read, under a policy that selects pages of slots and evicts nothing by it.
struct PageRead {
  std::int32_t q = 0;
  std::int16_t layer = 0, kv_head = 0;
  std::vector<std::int32_t>
      pages;  // ascending; slot / page_size, which is position / page_size unless the policy evicts too
  bool operator==(const PageRead&) const = default;
};

/// What the oracle can go by beside the mean mass, see OracleSpec. Each as future_mass, or empty where it was not asked
/// for.
struct FutureKinds {
  HeadSeries<float> rms, max;                             // root mean square and maximum over later queries
  HeadSeries<float> value_norm;                           // |v_t|
  HeadSeries<float> output_mean, output_rms, output_max;  // each query head's mass times |W_o v_t| / mean |o W_o|
};

/// Calls visit(name, series) for each of them (const or not).
template <typename Kinds, typename Visit>
void visit_future(Kinds& kinds, Visit&& visit) {
  visit("future_rms", kinds.rms);
  visit("future_max", kinds.max);
  visit("value_norm", kinds.value_norm);
  visit("output_mean", kinds.output_mean);
  visit("output_rms", kinds.output_rms);
  visit("output_max", kinds.output_max);
}

/// What eviction did to the output of each layer's attention: norms of vectors of the residual stream, for every query
/// of one pass over the run's tokens under its own lifetimes and reads,
///
///     d_h = o_full,h - o_kept,h      of query head h: over all causal keys of that pass, over those that the run read
///     D_g = sum over h in g of d_h W_o^h      D = sum over g of D_g      o W_o, the layer's whole output, of o_full
///
/// NaN where no token that came before the query is evicted or unread. engine/core/study/measure/output_error.h has the means.
struct OutputError {
  HeadSeries<float> group_damage;  // [n_layers][n_kv_heads][n_queries] |D_g|
  HeadSeries<float> layer_damage;  // [n_layers][1][n_queries] |D|
  HeadSeries<float> layer_output;  // [n_layers][1][n_queries] |o W_o|
  /// Of a head that reads pages (Quest): share of the query's dense attention on the tokens before its own page, in the
  /// mean over the group, that lies on the pages it read; and on as many pages chosen best. NaN where there is none.
  HeadSeries<float> read_mass, best_read_mass;  // [n_layers][n_kv_heads][n_queries]

  OutputError() = default;
  OutputError(int n_layers, int n_kv_heads)
      : group_damage(n_layers, n_kv_heads),
        layer_damage(n_layers, 1),
        layer_output(n_layers, 1),
        read_mass(n_layers, n_kv_heads),
        best_read_mass(n_layers, n_kv_heads) {}
  bool empty() const { return layer_output.empty(); }
  /// check_run() sees to it that every row is as long.
  int n_queries() const { return empty() ? 0 : static_cast<int>(layer_output.row(0, 0).size()); }
};

enum class RunStatus : std::uint8_t { running, complete, cancelled, failed };
std::string_view to_string(RunStatus status);

struct RunTimings {
  double load_s = 0, prefill_s = 0, decode_s = 0;  // decode_s covers decode_steps steps
  int decode_steps = 0;
  bool instrumented = true;  // scores and contests were recorded, the oracle ran beside it
};

/// One run. Rows of the head series are `n_tokens()` long when the run is complete; while it is in progress `scores`
/// and `future_mass` may be shorter. Position i of every series is the token at position i.
/// What a run begins with. Its numbers are visited by visit_fields() (run_fields.h): messages and checks read them there.
struct RunHead {
  int n_positions = 0;  // prompt + max new tokens, what keep= and compression= refer to
  /// Of a text that was read only: from its first token on the policy acted after every so many. 0: the prompt passed as
  /// the policy's runs have it, then it acted after each token.
  int chunk = 0;
  int page_size = 16;  // slots of a page of the cache, which PageRead counts
  PolicySpec policy;   // nothing is open: what was not written is taken from the model's gates
  ScorerInfo scorer;   // what gives this run's scores; without text for none
  OracleSpec oracle;   // how the future mass is made, and which oracle the run is held against
  HeadRules heads;     // what each head kept, where heads differ; empty: all have the policy's one rule
};

struct RunRecord : RunHead {
  ModelInfo model;
  SamplingSpec sampling;
  std::string prompt_text;
  int prompt_len = 0;

  std::vector<std::int32_t> ids;  // prompt and answer
  BytePool pieces;                // their bytes
  std::vector<float> logprobs;    // natural log-probability of each token given those before; NaN for the first

  LifetimeMap evict_at;      // kUndecided for tokens whose fate is open
  HeadSeries<float> scores;  // raw score of each token; NaN where none was made (still in the window, or no scorer)
  std::vector<Contest> contests;      // q ascending within a (layer, kv_head)
  std::vector<PageRead> reads;        // q ascending
  std::vector<PolicyChange> changes;  // q ascending; `policy` is what the run began with
  /// Mean of the dense teacher's attention from later queries, over the group as `oracle` says, [0, 1]; NaN if none.
  HeadSeries<float> future_mass;
  FutureKinds future;      // the same gathered and weighed in other ways
  int oracle_horizon = 0;  // queries the oracle has seen; < n_tokens() means "so far"
  /// [n_layers][n_kv_heads] as the engine reports it until future_mass is here; then empty.
  std::vector<float> recall_so_far;
  OutputError output_error;  // empty unless asked for

  /// Positions that were fed to the model, so that queries 0 ... n_queries - 1 were made: n_tokens(), or one less as
  /// the last sampled token need not be fed. 0: none yet, or of a run that has ended: not known, queries() takes
  /// n_tokens() then.
  int n_queries = 0;

  RunStatus status = RunStatus::running;
  std::string message;  // why it failed
  RunTimings timings;
  std::shared_ptr<const Asked> asked;  // null: not recorded, as in a trace of before version 7 without a command line
  std::string started_utc;             // ISO 8601
  std::string recorder;                // what the engine calls itself, with its version; empty: KVScope's own
  int prompt_index = -1;               // which prompt of a capture's file it answers; -1: a run on its own

  int n_tokens() const { return static_cast<int>(ids.size()); }
  int queries() const { return n_queries > 0 || status == RunStatus::running ? n_queries : n_tokens(); }
  /// What the policy's parameters give, heads apart: of a learned decay the log_gamma is 0 here, and the budget is the mean.
  RetentionGeometry geometry() const { return policy.geometry(n_positions); }
  /// That of a head.
  RetentionGeometry geometry(int layer, int kv_head) const;
  /// What the policy did in a head: its threshold is there.
  RetentionPlan plan(int layer, int kv_head) const;
  bool is_local(int layer, int kv_head) const;
  /// Because the layer attends to its window alone: no policy decides there, and no mean or ranking has the head.
  bool is_local_by_model(int layer, int kv_head) const;
  /// [n_layers] of those windows, 0: a global layer. Empty: all are global.
  std::vector<std::int32_t> model_windows() const;
  /// [n_layers * n_kv_heads], 1: local. Empty: none is, and the policy does not treat heads apart.
  std::vector<std::uint8_t> local_heads() const;
  /// [n_layers * n_kv_heads] that were solved for a density, or the decays that were learned; empty: there are none.
  std::vector<float> thresholds() const;
  std::vector<float> log_gamma() const;
  /// [n_layers * n_kv_heads] where the policy's budget is divided, or was given; empty: every head has the policy's.
  std::vector<std::int32_t> budgets() const;
  /// What a request for the same run has to say of them: nothing where the run finds them itself again, at its prompt's end.
  std::vector<std::int32_t> budgets_to_repeat() const;
  /// The parameters that hold at query q.
  const PolicySpec& policy_at(std::int32_t q) const;
};

/// RunRecord::chunk in words: "each token", "every 16 tokens", "the prompt, then each token".
std::string describe_chunk(int chunk);

/// Makes all rows, pieces and logprobs n_tokens() long: what is missing is undecided, NaN or empty.
void fill_rows(RunRecord& run);

/// Ends a run: fill_rows(), and tokens whose fate is open although they have left the window (t < n_queries - window), and
/// sinks, become kNever; the others stay kUndecided.
void finish_run(RunRecord& run, RunStatus status, std::string message = {});

}  // namespace kvscope
