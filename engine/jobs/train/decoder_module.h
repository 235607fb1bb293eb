#pragma once
// A model as something that gradients go through: the forward pass of engine/model/decoder_layer.h over whole sequences.
// Gradients want ATen's operations and every product apart, where a pass without them fuses and writes in place.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/core/files/weights/model_config.h"
#include "engine/jobs/train/flat_parameters.h"
#include "engine/jobs/train/lora_adapter.h"
#include "engine/jobs/train/norm_rope.h"

namespace kvscope::engine {

/// Parameters under their names in the model's files. The residual stream is float32, matrix products and attention run
/// in compute_type.
class DecoderModule {
 public:
  /// Not `trained`: a frozen base, through which gradients go and none of which is changed. Throws Error (usage) for a
  /// model that it does not compute.
  DecoderModule(const ModelConfig& config, int n_positions, at::Device device, at::ScalarType compute_type,
                bool trained);

  /// This model with an adapter beside its matrices, of the same tensors: what changes in one changes in the other.
  DecoderModule adapted(const LoraAdapter& adapter) const;

  /// Draws all weights from `seed`: matrices normal with deviation fan_in^-1/2, embeddings 0.02, those that write into
  /// the residual stream scaled by (2 n_layers)^-1/2, gains 1. The same numbers on every machine.
  void initialise(std::uint64_t seed);

  /// ids int64 [B, T] -> final normalised hidden states [B, T, H] in compute_type.
  at::Tensor hidden(const at::Tensor& ids) const;
  const at::Tensor& embedding() const;  // [V, H]
  const at::Tensor& output() const;     // [V, H]: the embedding where the two are tied

  /// The pieces of one layer, for those who need what is between them.
  at::Tensor embed(const at::Tensor& ids) const;  // [B, T, H] float32
  struct Heads {
    at::Tensor input;        // [B, T, H] in compute_type: what enters attention, after the layer's norm
    at::Tensor k_unrotated;  // [B, T, n_kv_heads, D] after norm, before rotation; of project_unrotated() alone
    at::Tensor q;            // [B, T, n_heads, D] after norm and rotation
    at::Tensor k, v;         // [B, T, n_kv_heads, D], k after norm and rotation: what a cache holds
  };
  Heads project(int layer, const at::Tensor& x) const;
  /// The same with k_unrotated, in a few more passes over q and k.
  Heads project_unrotated(int layer, const at::Tensor& x) const;
  /// Causal attention, of a local layer within its window, [B, T, n_heads * D].
  at::Tensor attend(int layer, const Heads& heads) const;
  /// attention [B, T, n_heads * D] -> the layer's output, residuals and MLP included.
  at::Tensor finish(int layer, const at::Tensor& x, const at::Tensor& attention) const;
  /// [H, n_heads * D] of a layer, without an adapter.
  const at::Tensor& output_projection(int layer) const {
    return layers_[static_cast<std::size_t>(layer)].o_proj.weight;
  }
  /// The final norm, in compute_type.
  at::Tensor final_norm(const at::Tensor& x) const;

  const ModelConfig& config() const { return config_; }
  FlatParameters& parameters() { return parameters_; }
  const FlatParameters& parameters() const { return parameters_; }

 private:
  class LayerOps;
  struct Matrix {
    at::Tensor weight;         // [outputs, inputs]
    at::Tensor bias;           // undefined where there is none
    LoraAdapter::Pair change;  // undefined without an adapter
  };
  struct Layer {
    at::Tensor input_norm, post_norm;
    Matrix q_proj, k_proj, v_proj, o_proj, gate, up, down;
    at::Tensor q_norm, k_norm;                    // undefined where the layer has none
    at::Tensor attention_out_norm, mlp_out_norm;  // likewise
    RotaryTable rotary;
  };
  at::Tensor product(const Matrix& matrix, const at::Tensor& x) const;
  /// Of one layer, with the names of their parts.
  static std::array<std::pair<Matrix*, const char*>, 7> matrices_of(Layer& layer, const TensorNames& names);
  Layer layer_of(int index) const;
  /// Over the last dimension, of so many numbers; the family's offset added to the gain.
  at::Tensor norm(const at::Tensor& x, const at::Tensor& gain, double eps) const;

  ModelConfig config_;
  at::ScalarType compute_type_;
  FlatParameters parameters_;
  std::vector<Layer> layers_;
  double change_scale_ = 0;
  at::Tensor embedding_, output_, final_norm_;
};

}  // namespace kvscope::engine
