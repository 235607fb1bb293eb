#pragma once
// Attention under a policy while a chunk of a prompt passes through. Includes LibTorch; private to decode/.

#include <c10/core/Event.h>

#include <optional>
#include <vector>

#include "engine/decode/pinned_buffer.h"
#include "engine/decode/prompt_heads.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {

class AttentionClock;

/// One chunk, layer by layer: its scores, lifetimes from them, attention of its queries over what the cache kept of the
/// chunks before and the chunk itself,
///
///     visible(q, t)  <=>  t <= q < evict_at[t],
///
/// and what is alive at the chunk's end into the cache. Memory is that of the cache and of the chunks at work. In each layer
/// the chunk before must have ended. prepare() waits for nothing; attend() waits for the scores, if any.
class PrefillHook final : public AttentionHook {
 public:
  /// The chunk of positions first ... first + n - 1.
  PrefillHook(PromptHeads& heads, std::int64_t first, std::int64_t n, AttentionClock* clock = nullptr);
  void prepare(int layer, const LayerTokens& tokens) override;
  at::Tensor attend(int layer, const LayerTokens& tokens) override;
  bool reads_unrotated() const override;

 private:
  at::Tensor attend_dense(int layer, const LayerTokens& tokens);
  /// What `attention` gives, timed.
  template <typename Attention>
  at::Tensor timed(const Attention& attention) const;
  at::Tensor room_for_lse(const at::Tensor& q) const;
  /// n_before: slots in use before the chunk.
  void tell_attention(int layer, const at::Tensor& q, const at::Tensor& keys, const at::Tensor& lse,
                      std::int64_t n_before);
  /// Scores that the chunk's tokens make known, [n_kv_heads, n]: column i is of token first + i - delay. Undefined without
  /// scorer.
  at::Tensor score_tokens(int layer, const LayerTokens& tokens);
  void fetch_scores(int layer, const LayerTokens& tokens);
  void gather_keys(int layer, const LayerTokens& tokens);
  /// On the host.
  void tell_scores(int layer, const at::Tensor& scores);
  /// Of a pool nothing leaves within a chunk, so that the scores of all layers are fetched together after the last: a
  /// wait for the device instead of one a layer, of which a prompt cut every 32 tokens has thousands.
  void take_waiting();
  /// Uploads what the chunk has changed, into ahead_.evict_at; what it has not, the device knows. Returns the slots of the
  /// chunk's tokens, [n_kv_heads, n] int32.
  at::Tensor upload_decisions(int layer);
  at::Tensor upload(const std::vector<std::int32_t>& words);

  PromptHeads& heads_;
  SequenceState& state_;
  std::int64_t first_, n_;
  AttentionClock* clock_;
  int n_kv_heads_;
  bool wants_attention_;
  std::vector<int> waits_;           // layers whose scores wait
  std::vector<at::Tensor> waiting_;  // theirs, on the device
  at::Tensor positions_;             // [n] int32 on the device
  at::Tensor dense_slot_;            // [n_kv_heads, n] int32, if dense

  /// What prepare() has of a layer: the cache's first n_slots slots, then the chunk's tokens; by head.
  struct Ahead {
    std::int64_t n_slots = 0;
    at::Tensor keys, values;        // [n_kv_heads, n_slots + n, head_dim]
    at::Tensor position, evict_at;  // [n_kv_heads, n_slots + n] int32; evict_at of the cache's slots, as if all stayed
    at::Tensor scores;              // [n_kv_heads, n] on the host, when `are_there`; undefined: none
    std::optional<c10::Event> are_there;
  };
  Ahead ahead_;
  std::optional<PinnedBuffer> scores_, words_;  // on CUDA: ahead_.scores; what upload() sends
};

}  // namespace kvscope::engine
