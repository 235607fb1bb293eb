#pragma once
// The forward pass of many tokens at once, each layer as decoder_layer.h says: what differs from use to use (prefill
// under a policy, a dense teacher) is in AttentionHook. Includes LibTorch.

#include "engine/model/weights.h"

namespace kvscope::engine {

/// New tokens of one layer, n rows each, contiguous, in the model's dtype.
struct LayerTokens {
  at::Tensor x;            // [n, hidden] residual stream before the attention norm
  at::Tensor input;        // [n, hidden] attention input: rms_norm(x), or x of a layer without a norm before it
  at::Tensor q_unrotated;  // [n, n_heads, head_dim] after the model's own norm; undefined unless asked for
  at::Tensor k_unrotated;  // [n, n_kv_heads, head_dim] likewise
  at::Tensor q, k, v;      // q [n, n_heads, head_dim], k and v [n, n_kv_heads, head_dim]; q and k rotated
  AttentionScores scores;  // how q . k becomes weights
  int window = 0;          // newest keys that a query of the layer sees, LayerConfig::window; 0: all
};

/// What stands in the place of attention in a pass.
class AttentionHook {
 public:
  virtual ~AttentionHook() = default;
  /// Before attend() with the same tokens: what need not wait for anything may begin here. A pass of other tokens may come
  /// between the two.
  virtual void prepare(int /*layer*/, const LayerTokens& /*tokens*/) {}
  /// Returns o: [n, n_heads, head_dim], or an undefined tensor if nothing above this layer is wanted. Called once per
  /// layer, in order.
  virtual at::Tensor attend(int layer, const LayerTokens& tokens) = 0;
  /// Whether attend() wants q and k before their rotation too: copies of them.
  virtual bool reads_unrotated() const { return false; }
};

/// A pass that its caller drives, so that two can take turns: begin_layer(), then end_layer(), until that returns false.
class ForwardPass {
 public:
  /// As forward(). All arguments must outlive the pass, but for `ids`.
  ForwardPass(const ModelConfig& config, const Weights& weights, const at::Tensor& ids, std::int64_t first_position,
              AttentionHook& attention);
  /// The next layer up to its attention; calls prepare().
  void begin_layer();
  /// The rest of it; calls attend(). False after the last layer, or if `attention` stopped the pass.
  bool end_layer();
  /// What forward() returns.
  at::Tensor hidden() const;

 private:
  const ModelConfig& config_;
  const Weights& weights_;
  AttentionHook& attention_;
  int index_ = 0;
  at::Tensor positions_;  // [n] int32
  at::Tensor x_;          // [n, hidden] residual stream; undefined if stopped
  LayerTokens tokens_;    // between the two halves
};

/// ids: [n] int64 on the model's device, at positions first_position ... first_position + n - 1.
/// Returns the hidden states after the final norm, [n, hidden]; undefined if `attention` stopped it.
at::Tensor forward(const ModelConfig& config, const Weights& weights, const at::Tensor& ids,
                   std::int64_t first_position, AttentionHook& attention);

/// Logits in float32, [n, vocab], of hidden states [n, hidden].
at::Tensor logits_of(const Weights& weights, const at::Tensor& hidden);

/// Token ids as a tensor on the model's device, [n] int64.
at::Tensor ids_tensor(const Weights& weights, const std::int32_t* ids, std::int64_t n);

}  // namespace kvscope::engine
