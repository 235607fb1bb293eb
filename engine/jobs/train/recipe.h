#pragma once
// A training recipe: everything that decides what a trained sample model is, from one JSON file.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/jobs/tasks/palindrome.h"
#include "engine/jobs/tasks/repeat_sequences.h"
#include "engine/jobs/tasks/sequence.h"
#include "engine/jobs/tasks/text_sequences.h"
#include "engine/jobs/train/lora_options.h"

namespace kvscope::engine {

/// How long a phase runs: until `steps` are done or `max_seconds` are over, whichever comes first. With max_seconds 0
/// the clock has no say and the same seed gives the same model on the same device.
struct PhaseLength {
  std::int64_t steps = 0;
  double max_seconds = 0;
};

/// AdamW and its learning rate: linear warm-up over warm_up steps, then a cosine from the peak to final_share of it.
struct OptimizerOptions {
  double learning_rate = 2e-3;
  double beta1 = 0.9, beta2 = 0.95;
  double weight_decay = 0.1;
  double clip = 1;  // largest norm of the gradient; 0 for none
  std::int64_t warm_up = 200;
  double final_share = 0.05;
};

/// Share of the loss that a token of each role has, before the mean.
struct LossWeights {
  float text = 1, statement = 0.2f, answer = 4;
  float of(TokenRole role) const {
    return role == TokenRole::text ? text : role == TokenRole::statement ? statement : answer;
  }
  bool operator==(const LossWeights&) const = default;
};

/// What all phases have.
struct PhaseOptions {
  PhaseLength length;
  int batch = 64;  // sequences a step
  OptimizerOptions optimizer;
  int log_every = 50;
  int heldout_sequences = 64;  // for the accuracy or the oracle recall at the end
};

struct BaseOptions : PhaseOptions {
  int micro_batch = 64;  // of a batch's sequences so many at once; divides batch
  LossWeights weights;
};

/// How the boundary loss weighs a decision by the teacher's margin.
enum class MarginWeight { none, sigmoid, proportional };

/// How the teacher's attention is gathered over future queries (future_target.h).
enum class FutureMass { mean, sum, rms, max };

/// What a token's mass is multiplied with in the target: nothing, |v|, or |W_o v| of each query head.
enum class TargetWeight { mass, value, output };

/// gamma_min and gamma_max of KVpop's eq. 21.
struct DecayRange {
  double least = 0.999, most = 0.999999;
};

/// The base's own weights, trained in place of an adapter.
struct AllWeightsOptions {
  double learning_rate = 0;
};

/// KVpop scorers: the boundary loss of eq. 7 over a frozen base.
struct ScorerOptions : PhaseOptions {
  GateKind kind = GateKind::kvpop_mlstm;  // or kvpop_mlp, kvpop_linear
  int hidden = 64;                        // units of kvpop_mlp
  int window = 64;
  int delay = 64;                      // of the mLSTM: the window, or 0 (immediate)
  double soft_cap = 0;                 // of the mLSTM's gates; 0: none
  MlstmVariant mlstm;                  // (gate_file.h)
  std::optional<DecayRange> decay;     // learned, a head's own
  FutureMass mass = FutureMass::mean;  // over future queries, of the target
  TargetWeight weight = TargetWeight::mass;
  int n_sink = 4;
  std::vector<int> top_k;   // long-range budgets; one is drawn a step and layer
  int queries = 64;         // sampled a step and layer
  double late_share = 0.5;  // of them drawn near the end (B.6)
  double temperature = 1;   // of eq. 7
  MarginWeight margin = MarginWeight::sigmoid;
  double margin_min = 0.1;                     // omega_min of eq. 23
  double margin_temperature = 1;               // tau_omega of eq. 23
  double balance_min = 0.5, balance_max = 25;  // clip of eq. 24

  std::optional<LoraOptions> adapter;            // Algorithm 1 whole: the base is trained too, by an adapter
  std::optional<AllWeightsOptions> all_weights;  // or all of it
  double kl_weight = 1;                          // of the base's loss: the rest is the next token's cross-entropy
  int top_teacher = 256;                         // likeliest tokens of the dense base in its KL; 0: all
  bool sparse_lse = false;                       // its targets by the student's normaliser (eq. 9)
  double output_weight = 0;       // of a frozen base's loss through its output (scorer_student.h); 0: none
  std::int64_t output_after = 0;  // steps of the boundary loss alone before that begins
  int accuracy_sequences = 0;     // held-out ones of the curve's token accuracy (token_accuracy.h); 0: none
  bool pooled = false;            // what the student sees is of one budget for all heads (pooled_cutoff.h)
  bool trains_base() const { return adapter || all_weights; }
};

/// One stage of a gate's training: what it weighs, and for how long.
struct GateStage {
  double weight = 0;           // GateStep::weight; below 0: SP-KV's density regulariser
  bool is_of_utility = false;  // the recipe has it as price or density_regulariser
  PhaseLength length;
};

/// Gates through soft attention, over a frozen base where neither adapter nor all weights are trained. What is absent is the method's own (gate_method.h).
struct GateOptions : PhaseOptions {
  std::string method;
  std::optional<int> hidden;        // units of the hidden layer
  int kernel = 1;                   // tokens that the convolution over them sees (SP-KV App. C.4); 1: none
  std::optional<double> bias;       // of the output at the start
  std::optional<int> window;        // within which no gate counts
  std::optional<int> n_sink;        // first tokens whose gate is open
  std::optional<double> threshold;  // that the gate's file says
  std::vector<double> thresholds;   // at which the held-out loss is measured after each stage (gate_thresholds.h)
  std::vector<GateStage> stages;    // each goes on from the one before, with a new optimiser

  std::optional<LoraOptions> adapter;            // the base is trained too
  std::optional<AllWeightsOptions> all_weights;  // or all of it, from a model that is there or from nothing
  LossWeights weights{1, 1, 1};                  // of methods that learn from the next token
  double hard_share = 0;         // last part of a stage with the gate frozen and hard at the threshold (SP-KV, TAHG)
  std::int64_t anneal = 0;       // steps over which it becomes hard (eq. 7)
  bool sampled = false;          // gates are drawn, 0 or 1, and learn as if they were soft (SP-KV App. B)
  double least_probability = 0;  // of both values of a drawn gate (eq. 12)
  bool trains_base() const { return adapter || all_weights; }
};

inline constexpr char kKvzapMethod[] = "kvzap";

/// KVzap's regression (kvzip_score.h) over a frozen base: the section "gate" with method "kvzap". Numbers as published, except that
/// no text is read twice.
struct KvzapOptions : PhaseOptions {
  int hidden = 512;                 // units of the hidden layer; 0: linear
  int positions = 500;              // of the first copy, drawn a step; all where it has fewer
  int window = 128, n_sink = 0;     // that the gate's file says
  std::optional<double> threshold;  // likewise
  double density = 0.5;             // without a threshold: the share of held-out tokens that reach the one it gets
  GateKind kind() const { return hidden > 0 ? GateKind::kvzap_mlp : GateKind::kvzap_linear; }
};

/// A held-out text that is scored again and again while a gate trains (heldout_probe.h).
struct ProbeOptions {
  std::string text;            // or
  std::filesystem::path file;  // a file with it; neither: the data's first held-out sequence
  int tokens = 256;            // of it, at most
  int every = 10;              // steps
};

struct Recipe {
  std::string name;
  std::uint64_t seed = 1;
  ModelConfig model;                            // from the recipe, or of the base that is given
  SequenceOptions data;                         // tasks in the words of the sample model
  std::optional<TextOptions> text;              // or text with facts, data.kind "text"
  std::optional<RepeatOptions> repeat;          // or text that is repeated, data.kind "repeat"
  std::optional<PalindromeOptions> palindrome;  // or palindromes alone, data.kind "palindrome": no corpus is read
  double heldout_share = 0.02;                  // of the corpus, at its end
  std::optional<BaseOptions> base;
  std::optional<ScorerOptions> scorer;
  std::optional<GateOptions> gate;
  std::optional<KvzapOptions> kvzap;  // in place of `gate`
  std::optional<ProbeOptions> probe;

  int length() const {
    return palindrome ? palindrome->length : repeat ? repeat->length : text ? text->length : data.length;
  }

  /// Tokens after which the gates that are trained have scored a token, the most of them.
  int probe_delay() const;

  /// Throws Error naming the key for what is missing, unknown, out of range or contradictory. `file` names the source.
  /// `base`: the model that gates are trained for, whose config replaces the section "model"; null: it is trained here, by the
  /// section "base", or with its gate where that one trains all weights and there is no such section.
  static Recipe parse(const nlohmann::json& json, const std::string& file, const ModelConfig* base = nullptr);
};

}  // namespace kvscope::engine
