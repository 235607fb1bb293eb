#pragma once
// The experts of a layer in a prompt: the tokens of each expert are gathered and go through it together. A decode step has
// its own kernel (kernels/expert_mlp.h). Includes LibTorch.

#include "engine/model/weights.h"

namespace kvscope::engine {

/// Which experts each token goes through (expert_config.h), lowest index first, and their weights.
struct ExpertChoice {
  at::Tensor expert;  // [n, per_token] int32
  at::Tensor weight;  // [n, per_token] float32
};

/// Of n [n, hidden], in the model's dtype. The logits are products in float32 of what the dtype holds, here as in a decode
/// step; transformers rounds them to the dtype, and in bfloat16 so finds other experts where two are close.
ExpertChoice choose_experts(const at::Tensor& n, const at::Tensor& router, const ExpertConfig& experts,
                            const at::Tensor& bias = {});

/// The weighted sum of what the chosen experts give for n [n, hidden] -> the same shape and dtype. Summed in float32, by
/// the index of the expert; on CUDA it waits for the device once, to learn how many tokens each expert has.
at::Tensor expert_mlp(const at::Tensor& n, const LayerWeights& weights, const ExpertConfig& experts,
                      MlpActivation activation = MlpActivation::silu);

}  // namespace kvscope::engine
