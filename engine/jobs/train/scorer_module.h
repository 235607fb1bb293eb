#pragma once
// The delayed mLSTM scorers of all layers and KV heads, as something to train: the quadratic form (KVpop E.3, E.4).

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/jobs/train/flat_parameters.h"

namespace kvscope::engine {

/// For each layer and KV head, with x = [k ; v] as a cache holds them and phi(z) = [softmax(z), softmax(-z)]:
///
///     q~ = phi(x wq)   k~ = phi(x wk)   v~ = x wv      log i = x gi + bi      log f = logsigmoid(x gf + bf)
///     h_t = sum_{j <= e} w_j (q~_t . k~_j) v~_j / max(sum_{j <= e} w_j (q~_t . k~_j), 1e-6)
///           e = min(t + delay, T - 1),   log w_j = sum_{i = j+1}^{e} log f_i + log i_j - its maximum over j
///     score_t = SiLU(h_t) . out[:D] + x_t . out[D:] + b
///
/// Tensors as in kvpop_scorer.safetensors: wq, wk [L, HK, 2D, D/2], wv [L, HK, 2D, D], gi, gf [L, HK, 2D, 1],
/// bi, bf [L, HK, 1], out [L, HK, 3D], b [L, HK].
class ScorerModule {
 public:
  ScorerModule(int n_layers, int n_kv_heads, int head_dim, int delay, at::Device device);
  /// Projections normal with deviation (2D)^-1/2, forget gates nearly open, output zero: every score starts at 0.
  void initialise(std::uint64_t seed);

  /// k, v [B, T, HK, D]; tokens [HK, B, R] int64, the positions to score. -> [HK, B, R] float32. Only those rows of the
  /// quadratic form are computed. k and v get no gradient.
  at::Tensor scores(int layer, const at::Tensor& k, const at::Tensor& v, const at::Tensor& tokens) const;
  /// All T positions.
  at::Tensor scores(int layer, const at::Tensor& k, const at::Tensor& v) const;

  int delay() const { return delay_; }
  FlatParameters& parameters() { return parameters_; }
  const FlatParameters& parameters() const { return parameters_; }

 private:
  int head_dim_;
  int delay_;
  FlatParameters parameters_;
};

}  // namespace kvscope::engine
