#pragma once
// Qwen3 as something to train: the forward pass over whole sequences. It stands beside engine/model/transformer.cpp
// because gradients want ATen's operations and every product apart, where that one fuses and writes in place.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/core/files/weights/model_config.h"
#include "engine/jobs/train/flat_parameters.h"
#include "engine/jobs/train/norm_rope.h"

namespace kvscope::engine {

/// Parameters under their Hugging Face names; tied embeddings. The residual stream is float32, matrix products and
/// attention run in compute_type.
class Qwen3Module {
 public:
  Qwen3Module(const ModelConfig& config, at::Device device, at::ScalarType compute_type);

  /// Draws all weights from `seed`: matrices normal with deviation fan_in^-1/2, embeddings 0.02, those that write into
  /// the residual stream scaled by (2 n_layers)^-1/2, gains 1. The same numbers on every machine.
  void initialise(std::uint64_t seed);

  /// ids int64 [B, T] -> final normalised hidden states [B, T, H] in compute_type.
  at::Tensor hidden(const at::Tensor& ids) const;
  const at::Tensor& embedding() const;  // [V, H], also the output matrix

  /// The pieces of one layer, for the teacher that needs what is between them.
  at::Tensor embed(const at::Tensor& ids) const;  // [B, T, H] float32
  struct Heads {
    at::Tensor q;     // [B, T, n_heads, D] after norm and rotation
    at::Tensor k, v;  // [B, T, n_kv_heads, D], k after norm and rotation: what a cache holds
  };
  Heads project(int layer, const at::Tensor& x) const;
  /// attention [B, T, n_heads * D] -> the layer's output, residuals and MLP included.
  at::Tensor finish(int layer, const at::Tensor& x, const at::Tensor& attention) const;

  const ModelConfig& config() const { return config_; }
  FlatParameters& parameters() { return parameters_; }
  const FlatParameters& parameters() const { return parameters_; }

 private:
  struct Layer {
    at::Tensor input_norm, q_proj, k_proj, v_proj, o_proj, q_norm, k_norm;
    at::Tensor post_norm, gate_proj, up_proj, down_proj;
  };
  at::Tensor norm(const at::Tensor& x, const at::Tensor& gain, float eps) const;

  ModelConfig config_;
  at::ScalarType compute_type_;
  FlatParameters parameters_;
  RotaryTable rotary_;
  std::vector<Layer> layers_;
  at::Tensor embedding_, final_norm_;
};

}  // namespace kvscope::engine
