#pragma once
// The tensors of a Llama-shaped decoder, fused where one product does the work of several. Includes LibTorch.

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/core/files/weights/model_config.h"
#include "engine/model/attention_scores.h"
#include "kernels/dtype.h"

namespace kvscope::engine {

struct LayerWeights {
  at::Tensor input_norm;  // [hidden], undefined for a layer without norms before attention and MLP
  at::Tensor qkv_proj;    // [(n_heads + 2 n_kv_heads) * head_dim, hidden] q, k and v stacked
  at::Tensor qkv_bias;    // [(n_heads + 2 n_kv_heads) * head_dim], undefined for a layer without
  at::Tensor q_norm;      // [head_dim], undefined for a layer without norms per head
  at::Tensor k_norm;      // [head_dim]
  at::Tensor o_proj;      // [hidden, n_heads * head_dim]
  at::Tensor o_bias;      // [hidden], undefined for a layer without
  at::Tensor post_norm;   // [hidden], before the MLP, as input_norm
  at::Tensor gate_up;     // [2 intermediate, hidden] gate and up stacked
  at::Tensor down;        // [hidden, intermediate]
  // Of a layer with experts (ExpertConfig) gate_up is [n, 2 intermediate, hidden] and down [n, hidden, intermediate], of each
  // expert as above.
  at::Tensor router;  // [n, hidden], undefined for a layer without
  // [n], [n, 2 intermediate], [n, hidden]; undefined for experts without biases
  at::Tensor router_bias, gate_up_bias, down_bias;

  at::Tensor sink;                              // [n_heads] float32, undefined for a layer without
  at::Tensor attention_out_norm, mlp_out_norm;  // [hidden], undefined for a layer without norms around or after
  // [n_heads * head_dim], [n_kv_heads * head_dim]; undefined for a layer without norms over all heads
  at::Tensor whole_q_norm, whole_k_norm;

  at::Tensor inv_freq;          // [head_dim / 2] float32
  float attention_scaling = 1;  // of cosine and sine; 1 but for YaRN
};

struct Weights {
  at::Tensor embed;       // [vocab, hidden]
  at::Tensor final_norm;  // [hidden]
  at::Tensor lm_head;     // [vocab, hidden], the embedding itself if tied
  float norm_offset = 0;  // norms multiply by norm_offset + weight
  float embed_scale = 1;  // of a row of embed that enters the first layer; rounded to the dtype, as in transformers
  int gate_channel = -1;  // of a group's first query head, which carries a gate (DMS); -1: none does
  std::vector<LayerWeights> layers;
  c10::Device device = c10::Device(c10::kCPU);
  at::ScalarType dtype = at::kFloat;
  std::int64_t n_parameters = 0;
};

kernels::DType kernel_dtype(at::ScalarType dtype);

AttentionScores attention_scores(const ModelConfig& config, const Weights& weights, int layer);

/// Gives the tensor of a Hugging Face name ("model.layers.0.self_attn.q_proj.weight") on the CPU, of any float dtype.
using TensorSource = std::function<at::Tensor(const std::string& name, const std::vector<std::int64_t>& shape)>;

/// One tensor of a checkpoint and the rows that it fills.
struct TensorTarget {
  std::string name;
  std::vector<std::int64_t> shape;
  at::Tensor to;  // of that shape, contiguous, on the model's device and in its type
};

/// Where all tensors of a model come from.
class WeightReader {
 public:
  virtual ~WeightReader() = default;
  /// Throws Error if there is no such tensor. Asked for every tensor before memory is taken for any.
  virtual void check(const std::string& name, const std::vector<std::int64_t>& shape) const = 0;
  /// Whether files have this tensor, which is read instead of others. A reader that makes any tensor has none of these.
  virtual bool has(const std::string& /*name*/) const { return false; }
  /// Fills all targets, in any order. Packed numbers (mxfp4.h), whose names end in kPackedSuffix, arrive unpacked: `shape` is that of
  /// the numbers.
  virtual void read(const std::vector<TensorTarget>& targets) = 0;
};

/// Asks `reader` for every tensor that `config` implies, by its family's names, and lays them out on `device` in
/// `dtype`.
Weights build_weights(const ModelConfig& config, WeightReader& reader, c10::Device device, at::ScalarType dtype);
/// The same from a source that has every tensor, one at a time.
Weights build_weights(const ModelConfig& config, const TensorSource& source, c10::Device device, at::ScalarType dtype);

/// A source of pseudo-random weights that any language can compute again:
///
///     u = 2 * (splitmix64(fnv1a64(name) + seed + index) >> 40) / 2^24 - 1          in [-1, 1)
///     matrix: u * sqrt(3 / columns);  embedding: u;  norm: 1 + u / 10;  bias: u
///
/// One-dimensional tensors are norms, but for names that end in "bias". tests/engine/make_golden_logits.py is the other
/// side.
TensorSource formula_source(std::uint64_t seed);

}  // namespace kvscope::engine
