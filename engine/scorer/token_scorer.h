#pragma once
// What gives tokens their scores: one class per family of gates, all behind this. Includes LibTorch.

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/core/policy/scorer_text.h"
#include "engine/model/transformer.h"
#include "kernels/admit_step.h"
#include "kernels/gate_score.h"

namespace kvscope::engine {

/// What a scorer remembers of one sequence; none for most.
class ScorerMemory {
 public:
  virtual ~ScorerMemory() = default;
};

/// One token of a decode step as a scorer may see it, where the kernels have it.
struct DecodeToken {
  int layer;
  const void* x;                 // [hidden] float32, the residual stream
  const void* input_norm;        // [hidden] weight of the attention norm; null for a layer without
  const void* input;             // [hidden] in the model's dtype, x as it enters attention of a layer without that norm
  const void* qkv;               // [(n_heads + 2 n_kv_heads) * head_dim] before norm and rotation
  const std::int32_t* position;  // on the device
  float* score;                  // [n_kv_heads] out
  ScorerMemory* memory;          // of the sequence, as new_memory() made it
};

/// The new token of a decode step that is over, in the layers that are scored.
struct NewestToken {
  std::int32_t position;
  std::span<const int> layers;
  at::Tensor k, v;  // [layers, n_kv_heads, head_dim] as the cache has them
};

/// Immutable; any number of sequences may be scored by one. The score of token t exists once token t + delay() is
/// there: delay 0 is a gate on the token itself, the window of KVpop's delayed scorer is its delay, and a convolution of
/// SP-KV's predictor looks half a kernel ahead.
class TokenScorer {
 public:
  virtual ~TokenScorer() = default;
  std::string_view kind() const { return kind_; }  // "kvpop_mlstm", as in gate_file.h
  int delay() const { return delay_; }
  const std::string& name() const { return name_; }  // of its gate
  /// "KVpop mLSTM, delay 64, gate kvpop-mlstm".
  virtual std::string description() const { return scorer_text(kind_, delay_, name_); }
  /// Which gate of its kind it is, before anybody scores by it.
  void set_name(std::string name) { name_ = std::move(name); }
  virtual bool reads_unrotated() const { return false; }
  /// Bytes that a decode step reads of the scorer's own weights and, twice, of a sequence's memory; all layers.
  virtual double weight_bytes() const = 0;
  virtual double memory_bytes() const { return 0; }

  virtual std::unique_ptr<ScorerMemory> new_memory() const { return nullptr; }
  /// Scores that tokens first ... first + n - 1 of `layer` make known, [n_kv_heads, n] float32: column i is the score
  /// of token first + i - delay(), NaN before the first. They follow on what `memory` has absorbed.
  virtual at::Tensor absorb(int layer, const LayerTokens& tokens, std::int64_t first, ScorerMemory* memory) const = 0;

  /// Of a decode step, before kernels::admit_step: writes token.score at `place`. Not called
  /// for a scorer that admit_step runs itself.
  virtual void enqueue(const DecodeToken& token, kernels::Place place) const {
    kernels::gate_score(gate(token).value(), place);
  }
  /// The same for a scorer that is one kernel, which then scores several sequences in one launch; nullopt for any other.
  virtual std::optional<kernels::GateScoreArgs> gate(const DecodeToken& /*token*/) const { return std::nullopt; }
  /// Whether score_newest() is called between two steps: enqueue() then writes what is known before the step.
  virtual bool scores_between_steps() const { return false; }
  virtual void score_newest(const NewestToken& /*token*/, ScorerMemory* /*memory*/) const {}
  /// For admit_step; project is null for a scorer that it does not know.
  virtual kernels::MlstmScorerView mlstm(int layer, ScorerMemory* memory) const {
    (void)layer, (void)memory;
    return {};
  }

 protected:
  /// `kind` is a literal.
  TokenScorer(std::string_view kind, int delay) : kind_(kind), delay_(delay) {}

 private:
  std::string_view kind_;
  int delay_;
  std::string name_;
};

}  // namespace kvscope::engine
