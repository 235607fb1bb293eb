#pragma once
// KVpop's scorers of all layers and KV heads, as something to train.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/jobs/train/flat_parameters.h"
#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

/// Layers first ... first + count - 1; one layer says its number. The heads of several are those of the layers one behind the other, HK each:
/// what costs a launch of a small kernel a layer on a GPU costs one for all.
struct LayerRange {
  int first = 0, count = 1;
  LayerRange(int layer) : first(layer) {}  // NOLINT(google-explicit-constructor)
  LayerRange(int first_layer, int n_layers) : first(first_layer), count(n_layers) {}
};

/// The network of one head of one layer, over x = [k ; v] as a cache holds them; tensors as gate_file.h names them.
///
///     kvpop_mlstm    scorer_mlstm.cpp
///     kvpop_mlp      w2 . SiLU(w1 x + b1) + b2
///     kvpop_linear   w2 . x + b2
///
/// With a learned decay each head has one parameter more, alpha, and ranks by KVpop's eq. 5 and 21:
///
///     r_t(q) = score_t + (q - t) log gamma      log gamma = log gamma_min + sigmoid(alpha) (log gamma_max - log gamma_min)
class ScorerModule {
 public:
  ScorerModule(const ScorerOptions& options, const ModelConfig& model, at::Device device);
  /// Every score begins at 0, what leads to it near the identity of its input, a memory long.
  void initialise(std::uint64_t seed);

  /// k, v [B, T, HK, D]; tokens [HK, B, R] int64, the positions to score. -> [HK, B, R] float32. Nothing is computed for the
  /// other tokens but what a memory has of them. k and v get no gradient.
  at::Tensor scores(LayerRange layers, const at::Tensor& k, const at::Tensor& v, const at::Tensor& tokens) const;
  /// All T positions.
  at::Tensor scores(LayerRange layers, const at::Tensor& k, const at::Tensor& v) const;
  /// [HK], at most 0; undefined without a learned decay.
  at::Tensor log_gamma(LayerRange layers) const;
  /// What running top-k sorts by: scores, or with a decay scores - t log gamma (eq. 20). tokens as in scores().
  at::Tensor priorities(LayerRange layers, const at::Tensor& scores, const at::Tensor& tokens) const;

  /// gate.json and gate.safetensors (bfloat16) in `folder`.
  void save(const std::filesystem::path& folder, const std::string& description) const;

  GateKind kind() const { return options_.kind; }
  FlatParameters& parameters() { return parameters_; }
  const FlatParameters& parameters() const { return parameters_; }

 private:
  at::Tensor of_layers(const char* name, LayerRange layers) const;  // [count * HK, ...]

  ScorerOptions options_;
  ModelConfig model_;
  FlatParameters parameters_;
};

/// The quadratic form of KVpop's mLSTM (E.3, E.4), with cap(a) = c tanh(a / c), or a for soft_cap 0, and the feature map phi(z) =
/// [softmax(z), softmax(-z)], or softmax(z):
///
///     q~ = phi(x wq)   k~ = phi(x wk)   v~ = x wv      log i = cap(x gi + bi)      log f = logsigmoid(cap(x gf + bf))
///     h_t = sum_{j <= e} w_j (q~_t . k~_j) v~_j / max(sum_{j <= e} w_j (q~_t . k~_j), 1e-6)
///           e = min(t + delay, T - 1),   log w_j = sum_{i = j+1}^{e} log f_i + log i_j - its maximum over j
///     score_t = SiLU(h_t) . out[:D] + x_t . out[D:] + b      with a norm SiLU(LayerNorm(h_t) norm)
///
/// Tensors of one layer, as gate_file.h names them, without their first axis; x [HK, B, T, 2D], tokens [HK, B, R]. No wv: v~ is the
/// cached value; no norm: none; out without its part from D on: no skip connection.
struct MlstmLayer {
  at::Tensor wq, wk, wv, gi, gf, bi, bf, out, b, norm;
};
struct MlstmNumbers {
  int delay = 0;
  double soft_cap = 0;
  FeatureMap feature_map = FeatureMap::hedgehog;
};
at::Tensor mlstm_scores(const MlstmLayer& layer, const at::Tensor& x, const at::Tensor& tokens,
                        const MlstmNumbers& numbers);

}  // namespace kvscope::engine
