#pragma once
// Attention under a policy while a prompt passes through in chunks. Includes LibTorch; private to decode/.

#include <vector>

#include "engine/decode/dense_attention.h"
#include "engine/decode/eviction/sequence_state.h"
#include "engine/decode/head_retention.h"
#include "engine/decode/hooks.h"

namespace kvscope::engine {

/// Chunk by chunk and layer by layer: scores of the chunk, lifetimes from them, attention of the chunk's queries over
/// what the cache kept of the chunks before and the chunk itself,
///
///     visible(q, t)  <=>  t <= q < evict_at[t],
///
/// and what is alive at the chunk's end into the cache. Memory is that of the cache and of one chunk. Use: begin() and
/// forward() per chunk, finish() at the end.
class PrefillHook final : public AttentionHook {
 public:
  /// facts: null to note nothing. n_chunks: of the prompt, for the progress.
  PrefillHook(SequenceState& state, const Hooks& hooks, StepFacts* facts, std::int64_t n_chunks);
  /// The next chunk: positions first ... first + n - 1.
  void begin(std::int64_t first, std::int64_t n);
  at::Tensor attend(int layer, const LayerTokens& tokens) override;
  bool reads_unrotated() const override;
  /// A method has evicted between two chunks: learns what is left.
  void cache_changed();
  /// Gives the cache the scores of what it keeps, so that decode steps can go on.
  void finish();

 private:
  /// A policy that keeps everything, at least while the prompt lasts, needs no decisions, and nothing waits for the
  /// device. A layer that the model itself makes local decides by its window, whatever the policy.
  bool is_dense(int layer) const { return is_dense_ && !state_.policy.is_local_layer(layer); }
  at::Tensor attend_dense(int layer, const LayerTokens& tokens);
  at::Tensor room_for_lse(const at::Tensor& q) const;
  /// n_before: slots in use before the chunk.
  void tell_attention(int layer, const at::Tensor& q, const at::Tensor& keys, const at::Tensor& lse,
                      std::int64_t n_before);
  /// Scores that the chunk's tokens make known, [n_kv_heads, n]: column i is of token first + i - delay. Undefined without
  /// scorer.
  at::Tensor score_tokens(int layer, const LayerTokens& tokens);
  /// On the host.
  void tell_scores(int layer, const at::Tensor& scores);
  /// Of a pool nothing leaves within a chunk, so that the scores of all layers are fetched together behind the last: a
  /// wait for the device instead of one a layer, of which a prompt cut every 32 tokens has thousands.
  void take_waiting();
  /// Of every head, and its slots. Returns the slots that were in use before, by head.
  std::vector<std::int32_t> decide(int layer, const at::Tensor& scores);
  void note(int layer, const at::Tensor& scores);
  HeadRetention& head(int layer, int kv_head) {
    return heads_[static_cast<std::size_t>(layer) * n_kv_heads_ + kv_head];
  }
  const HeadRetention& head(int layer, int kv_head) const {
    return heads_[static_cast<std::size_t>(layer) * n_kv_heads_ + kv_head];
  }
  /// What the device has to know of a layer's chunk: position and evict_at of the cache's first n_slots slots and the
  /// chunk's tokens, then the slots of the chunk's tokens; by head.
  struct ChunkFacts {
    at::Tensor position, evict_at;  // [n_kv_heads, n_slots + n] int32
    at::Tensor slot;                // [n_kv_heads, n] int32
    std::int64_t n_slots;
  };
  /// Uploads what the chunk has changed; what it has not, the device knows.
  ChunkFacts facts_of_chunk(int layer, const std::vector<std::int32_t>& n_before) const;

  SequenceState& state_;
  const Hooks& hooks_;
  StepFacts* facts_;
  std::int64_t n_chunks_, chunk_ = -1;
  std::int64_t first_ = 0, n_ = 0;
  int n_kv_heads_;
  bool is_dense_, wants_attention_;
  std::vector<HeadRetention> heads_;  // [n_layers * n_kv_heads], empty if every layer is dense
  std::vector<int> waits_;            // layers whose scores wait
  std::vector<at::Tensor> waiting_;   // theirs, on the device
  at::Tensor positions_;              // [n] int32 on the device
  at::Tensor dense_slot_;             // [n_kv_heads, n] int32, if dense
};

}  // namespace kvscope::engine
