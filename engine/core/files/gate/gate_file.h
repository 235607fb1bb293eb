#pragma once
// Gates and scorers of every public format in one plain structure: a few numbers and float32 tensors on the host.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/weights/model_config.h"

namespace kvscope {

/// What a gate computes, per layer and KV head, and the tensors that it has. L = n_layers, H = n_kv_heads,
/// D = head_dim, F = hidden_size, M = n_hidden, K = kernel; matrices stand as [outputs, inputs] except in kvpop_mlstm.
///
///     kvpop_mlstm   x = [k ; v] (k after RoPE); engine/scorer/kvpop_scorer.h
///                   wq wk [L, H, 2D, D/2], wv [L, H, 2D, D], gi gf [L, H, 2D, 1], bi bf [L, H, 1],
///                   out [L, H, 3D], b [L, H]; of a variant others: MlstmVariant
///     kvpop_mlp     w2 . act(w1 x + b1) + b2, x as above
///                   w1 [L, H, M, 2D], b1 [L, H, M], w2 [L, H, M], b2 [L, H]
///     kvpop_linear  w2 . x + b2, x as above                                   w2 [L, H, 2D], b2 [L, H]
///     all three     may have the logarithm of each head's own decay (KVpop eq. 21, <= 0)       log_gamma [L, H]
///     wg_kv         w2 . act(w1 x + b1) + b2, x = [RMSNorm(k before RoPE) ; RMSNorm(k after RoPE)]; "before RoPE" is
///                   after the model's own norm of k
///                   pre_norm post_norm [L, D] (weights of the two norms), the others as kvpop_mlp
///     sp_kv         w2 act(w1 x + b1) + b2, x = what enters attention (hidden states after the layer's input norm)
///                   w1 [L, M, F], b1 [L, M], w2 [L, H, M], b2 [L, H]; linear (n_hidden 0): w2 [L, H, F], b2 [L, H]
///                   with a kernel K > 1 (SP-KV App. C.4) w2 reads c instead of a = act(w1 x + b1), unit by unit
///                   c_t = sum_j conv[j] a_(t - K/2 + j), j = 0 ... K - 1, a = 0 before the first token   conv [L, M, K]
///     kvzap_mlp     as sp_kv; predicts the logarithm of the importance
///     kvzap_linear  as a linear sp_kv
///     dms           channel D - 1 of the first query head of the KV head's group, after the model's norm of q, before
///                   RoPE. No tensors. That channel is zero in attention, before RoPE and again after it.
///     dms_separate  w2 RMSNorm(x) + b2, x = what enters the layer (before its input norm)
///                   norm [L, F], w2 [L, H, F], b2 [L, H]
///     duo           the same number for every token                            alpha [L, H]
///     knorm         -|k|, k after RoPE (Devoto et al., 2024). No tensors.
///     keydiff       -cos(k, a), a = sum of k_u / |k_u| over all tokens u up to this one (KeyDiff). No tensors.
enum class GateKind {
  kvpop_mlstm,
  kvpop_mlp,
  kvpop_linear,
  sp_kv,
  wg_kv,
  dms,
  dms_separate,
  kvzap_linear,
  kvzap_mlp,
  duo,
  knorm,
  keydiff
};

/// Of a hidden layer; gelu is the exact one.
enum class Activation { identity, silu, gelu };

/// phi of an mLSTM's q~ and k~: [softmax(y), softmax(-y)], or softmax(y) with wq wk [L, H, 2D, D].
enum class FeatureMap { hedgehog, softmax };

/// What KVpop's ablations change in its mLSTM (E.3, E.4, E.5). The defaults are the scorer that KVScope trains.
struct MlstmVariant {
  FeatureMap feature_map = FeatureMap::hedgehog;
  /// xLSTM's head-wise LayerNorm of h before SiLU, with a weight and no bias: norm [L, H, D]. Its epsilon is norm_eps.
  bool head_norm = false;
  bool cached_values = false;  // v~ = v, and no wv
  bool skip = true;            // the score has x . out[D:] too; else out is [L, H, D] (eq. 11 as printed)
  bool operator==(const MlstmVariant&) const = default;
};

/// From the network's output to the decision:
///
///     logit = scale * output + offset
///     score = negated ? -logit : logit, then 1 / (1 + exp(-score)) if sigmoid, which kvpop_mlstm may not have: higher is
///             kept
///     kept  = score >= threshold, or score > threshold if strict
///
/// DMS prints logit = 100 output - 5 and evicts where it is > 0: scale 100, offset -5, negated, threshold 0, not
/// strict.
struct GateConfig {
  GateKind kind = GateKind::kvpop_mlstm;
  /// The score of token t exists once token t + delay has been seen. KVpop delayed: its window; DMS: 1, because token
  /// t + 1 carries the mark of token t; SP-KV with a convolution: kernel / 2, the tokens behind that it sees; all others 0.
  int delay = 0;
  /// Tokens that are visible whatever their score: q - t < window. DMS counts q - t <= 512: 513 here.
  int window = 0;
  int n_sink = 0;  // first tokens that are never evicted
  /// Of a scorer that was trained under one budget for all heads: tokens between two cuts of the pool, which with
  /// capacity=pooled is the default of its policies; 0: under each head's own budget.
  int pool_interval = 0;
  int n_hidden = 0;
  int kernel = 1;  // of sp_kv with a hidden layer: tokens that the convolution sees, odd, half of them behind; 1: none
  Activation activation = Activation::identity;
  double norm_eps = 1e-6;  // of the RMSNorms, and of an mLSTM's head-wise norm
  double soft_cap = 0;     // c of c tanh(a / c) on the gates of an mLSTM; 0: none
  bool guarded = false;    // mLSTM: denominator max(|q z|, exp(-m)) instead of q z as the paper prints it
  MlstmVariant mlstm;
  double scale = 1, offset = 0;
  bool negated = false;
  bool sigmoid = false;
  double threshold = 0;  // where the file says none, the method's: WG-KV 0.1, SP-KV 0.5, KVzap -4, DMS 0, Duo 0.5
  bool strict = false;
  bool per_layer = false;  // the first head's score decides for all heads of the layer
  bool operator==(const GateConfig&) const = default;
};

struct GateTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // row-major; float32 whatever the file had
  bool operator==(const GateTensor&) const = default;
};

/// Sizes of the model that a gate was made for; 0 where its kind does not depend on it or its file does not say it.
struct GateDims {
  std::int64_t n_layers = 0, n_kv_heads = 0, head_dim = 0, hidden_size = 0;
  bool operator==(const GateDims&) const = default;
};

struct GateFile {
  GateConfig config;
  GateDims dims;
  std::map<std::string, GateTensor> tensors;  // exactly those of the kind, and of those that it may have any
  std::string format;                         // a name of gate_format()
  std::string description;  // "wg_kv of 36 layers x 8 KV heads, 192 hidden units, kept if score > 0.1"
  std::string hash;         // hex FNV-1a 64 over numbers and tensors, the same in every format
  std::filesystem::path path;
  std::vector<std::string> warnings;  // one line each: odd, but no reason to refuse
  std::int64_t n_parameters() const;
};

/// "wg_kv"
const char* name_of(GateKind kind);
std::optional<GateKind> gate_kind_of(const std::string& name);
/// The numbers of the method as published.
GateConfig default_gate_config(GateKind kind);

/// Which format stands at `path`, by its names and small JSON files alone; nothing if no gate does. In this order:
///
///     kvscope          gate.json + gate.safetensors (docs/reference/gates.md)
///     kvscope-mapping  gate_mapping.json beside foreign weights
///     kvpop-scorer     kvpop_scorer.json + kvpop_scorer.safetensors
///     duo              full_attention_heads.tsv + config.json
///     dms              a model's folder: dms_metadata.json, or config.json with dms_* keys
///     kvzap            config.json of model_type "kvzap" + model.safetensors
///     wg-kv            a .pt or .safetensors file with g_predictors, or a folder whose only such file it is
///     wg-kv-stacked    a .safetensors file of w1, b1, w2 and b2 over all layers, or a folder whose only such file it is
///     weightless       no file: the name of a kind alone, which needs none (weightless_gate(), gate_kinds.h)
///
/// `path` is the folder or the file that names the format.
std::optional<std::string> gate_format(const std::filesystem::path& path);
/// Whether the config.json in a folder of that format is the gate's, not a model's.
bool has_own_config(std::string_view format);

/// Reads what stands at `path`. Throws Error naming file, tensor, found and expected for anything damaged, foreign, not
/// finite or, in the first form, made for another model. The second form is for looking at a gate without its model.
GateFile load_gate(const std::filesystem::path& path, const ModelConfig& model);
GateFile load_gate(const std::filesystem::path& path);

enum class GateTensorType { f32, bf16 };

/// Writes `gate` as gate.json and gate.safetensors. load_gate gives back the same numbers, tensors and hash; in bf16, which
/// is half as long, the tensors rounded to the nearest. Both files or none; without `replace` neither may exist.
void save_gate(const std::filesystem::path& folder, const GateFile& gate, bool replace = true,
               GateTensorType type = GateTensorType::f32);

}  // namespace kvscope
