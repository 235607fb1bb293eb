#pragma once
// KVpop's mLSTM scorer (eq. 10-11, App. E.3): from a head's keys and values to one score per token. Includes LibTorch.

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "engine/core/files/gate/gate_file.h"
#include "engine/model/weights.h"
#include "engine/scorer/token_scorer.h"

namespace kvscope::engine {

/// What a scorer's file says of it; engine/core/files/gate reads it.
struct KvpopScorerConfig {
  int delay = 64;        // tokens between a token and the state that scores it: its window, or 0 (immediate)
  double soft_cap = 0;   // c of c tanh(a / c) on both gates; 0 for none
  bool guarded = false;  // denominator max(|q~ z|, exp(-m)) instead of the plain one
  MlstmVariant variant;
  double norm_eps = 1e-6;  // of the head-wise norm
};

/// Memory of one layer's scorer between tokens, all float32 on the model's device. Copies share tensors.
struct ScorerState {
  at::Tensor c;        // [n_kv_heads, head_dim, head_dim]
  at::Tensor z;        // [n_kv_heads, head_dim]
  at::Tensor m;        // [n_kv_heads]; -inf before the first token
  at::Tensor queries;  // [n_kv_heads, delay, head_dim] q~ of the last `delay` tokens; token t in row t % delay
  at::Tensor direct;   // [n_kv_heads, delay] the part of their scores that needs no memory
  std::int64_t n_tokens = 0;
};

/// For every layer and KV head, with x_t = [k_t ; v_t] (post-RoPE key, value; float32) and e = t + delay:
///
///     q~ = phi(W_q x), k~ = phi(W_k x), v~ = W_v x          phi(y) = [softmax(y), softmax(-y)]
///     log i = cap(x . g_i + b_i),  log f = logsigmoid(cap(x . g_f + b_f))
///     h_t = q~_t^T C_e / max(q~_t^T z_e, 1e-6)              C, z as in kernels/mlstm_step.h
///                                                           guarded: / max(|q~_t^T z_e|, 1) in units of exp(m_e)
///     score_t = SiLU(h_t) . out[:D] + x_t . out[D:] + b
///
/// A variant has phi(y) = softmax(y), v~ = v, norm(h_t) in place of h_t, or no x_t . out[D:].
///
/// The score of t exists once token t + delay has been absorbed, that is when t leaves the window.
class KvpopScorer final : public TokenScorer {
 public:
  /// From tensors "wq", "wk", "wv", "gi", "gf", "bi", "bf", "out", "b" of `source` (shapes at kvpop_scorer.cpp), or
  /// those of the variant.
  KvpopScorer(const KvpopScorerConfig& config, const ModelConfig& model, const TensorSource& source,
              c10::Device device);

  const KvpopScorerConfig& config() const { return config_; }
  double weight_bytes() const override;
  double memory_bytes() const override;

  ScorerState initial_state() const;
  /// Absorbs k, v [n, n_kv_heads, head_dim] (any float dtype) that follow on `state`, in blocks, so that memory does
  /// not grow with n^2. Returns scores [n_kv_heads, n] float32: column i is the score of token state.n_tokens + i -
  /// delay; columns of tokens before the first are NaN.
  at::Tensor absorb(int layer, const at::Tensor& k, const at::Tensor& v, ScorerState& state) const;
  /// A layer's weights and its state for kernels::admit_step, which absorbs one token and counts nothing: n_tokens is
  /// the caller's. Valid while `state` keeps its tensors, that is until the next absorb().
  kernels::MlstmScorerView view(int layer, const ScorerState& state) const;

  std::unique_ptr<ScorerMemory> new_memory() const override;
  at::Tensor absorb(int layer, const LayerTokens& tokens, std::int64_t first, ScorerMemory* memory) const override;
  /// admit_step runs it.
  void enqueue(const DecodeToken&, kernels::Place) const override {}
  kernels::MlstmScorerView mlstm(int layer, ScorerMemory* memory) const override;

 private:
  struct Features {
    at::Tensor q, k, v;       // [n_kv_heads, n, head_dim]
    at::Tensor log_i, log_f;  // [n_kv_heads, n]
    at::Tensor direct;        // [n_kv_heads, n] x . out[D:] + b
  };
  Features features(int layer, const at::Tensor& k, const at::Tensor& v) const;
  /// By kernels::mlstm_prompt, in place: about 130 of LibTorch's launches become six.
  at::Tensor absorb_on_device(int layer, const at::Tensor& k, const at::Tensor& v, ScorerState& state) const;
  at::Tensor absorb_blocks(int layer, const Features& f, std::int64_t block, ScorerState& state) const;
  at::Tensor score(int layer, const at::Tensor& h, const at::Tensor& direct) const;
  at::Tensor phi(const at::Tensor& y) const;
  at::Tensor cap(const at::Tensor& gate) const;

  KvpopScorerConfig config_;
  int head_dim_;
  int n_kv_heads_;
  int map_width_;       // columns of W_q, and of W_k: D/2, or D for softmax
  at::Tensor project_;  // [layers, n_kv_heads, 2 D, 2 map_width + D + 3]: W_q, W_k, W_v, g_i, g_f, out[D:]
  at::Tensor bias_;     // [layers, n_kv_heads, 3]: b_i, b_f, b
  at::Tensor read_;     // [layers, n_kv_heads, D]: out[:D]
  at::Tensor norm_;     // [layers, n_kv_heads, D], or undefined
};

}  // namespace kvscope::engine
