#pragma once
// What the chunks of a prompt share while they pass through: every head's retention, and what is noted of it. Includes
// LibTorch; private to decode/.

#include <vector>

#include "engine/decode/eviction/sequence_state.h"
#include "engine/decode/head_retention.h"
#include "engine/decode/hooks.h"

namespace kvscope::engine {

class PromptHeads {
 public:
  /// facts: null to note nothing. n_tokens: of the prompt.
  PromptHeads(SequenceState& state, const Hooks& hooks, StepFacts* facts, std::int64_t n_tokens);

  SequenceState& state() { return state_; }
  int n_kv_heads() const { return n_kv_heads_; }
  /// A policy that keeps everything, at least while the prompt lasts, needs no decisions, and nothing waits for the
  /// device. A layer that the model itself makes local decides by its window, whatever the policy.
  bool is_dense() const { return is_dense_; }
  bool is_dense(int layer) const { return is_dense_ && !state_.policy.is_local_layer(layer); }
  /// Whether a chunk may begin before the one before has ended, a layer behind it: the device works on one while the host
  /// decides for the other. Only where nothing but the scores decides.
  bool take_turns() const;

  HeadRetention& head(int layer, int kv_head) {
    return heads_[static_cast<std::size_t>(layer) * n_kv_heads_ + kv_head];
  }
  /// Of every head of a layer, for n queries more, and its slots. scores: [n_kv_heads, n] on the host, or undefined.
  void decide(int layer, std::int64_t n, const at::Tensor& scores);
  /// Adds what was decided, of the chunk whose first query is `first`, to the facts.
  void note(int layer, std::int64_t first, const at::Tensor& scores);
  bool notes() const { return facts_ != nullptr; }

  /// To be called once per layer and chunk, of n tokens: throws Error (cancelled), reports progress.
  void begin_layer(std::int64_t n);
  /// A method has evicted between two chunks: learns what is left.
  void cache_changed();
  /// Gives the cache the scores of what it keeps of the `end` tokens, so that decode steps can go on.
  void finish(std::int64_t end);

 private:
  SequenceState& state_;
  const Hooks& hooks_;
  StepFacts* facts_;
  std::int64_t n_tokens_;
  int n_kv_heads_;
  std::int64_t done_ = 0;  // tokens, each once per layer that it began
  bool is_dense_;
  std::vector<HeadRetention> heads_;  // [n_layers * n_kv_heads], empty if every layer is dense
};

}  // namespace kvscope::engine
