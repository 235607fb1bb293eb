#pragma once
// Cross-entropy over a vocabulary without ever holding all logits.

#include <ATen/core/Tensor.h>

namespace kvscope::engine {

struct WeightedCrossEntropy {
  at::Tensor loss;  // scalar float32: sum over tokens of weight * nll; differentiable
  at::Tensor nll;   // [n] float32, natural log; not differentiable
};

/// hidden [n, H], embedding [V, H] (tied output), target int64 [n], weight float32 [n] (already divided by its sum if a
/// mean is wanted). Rows go through in chunks; each chunk's gradient is computed at once while its logits are there, so
/// the largest temporary is [chunk, V] float32.
WeightedCrossEntropy weighted_cross_entropy(const at::Tensor& hidden, const at::Tensor& embedding,
                                            const at::Tensor& target, const at::Tensor& weight,
                                            std::int64_t chunk = 16384);

}  // namespace kvscope::engine
