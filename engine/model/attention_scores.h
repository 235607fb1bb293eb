#pragma once
// How one layer's attention makes weights of q . k: AttentionVariant (model_family.h) with its numbers and tensors. The
// equations are in kernels/score_variant.h. Includes LibTorch.

#include <ATen/ATen.h>

#include "kernels/score_variant.h"

namespace kvscope::engine {

struct AttentionScores {
  double scale = 1;     // of q . k
  double soft_cap = 0;  // 0: none
  at::Tensor sink;      // [n_heads] float32, or undefined: none

  AttentionScores() = default;
  AttentionScores(double scale_of, double cap = 0, at::Tensor sink_of = {})  // a scale alone is plain attention
      : scale(scale_of), soft_cap(cap), sink(std::move(sink_of)) {}

  bool is_plain() const { return soft_cap == 0 && !sink.defined(); }
  AttentionScores without_sink() const { return {scale, soft_cap}; }
  /// Of query heads first ... first + n - 1.
  AttentionScores of_heads(std::int64_t first, std::int64_t n) const {
    return {scale, soft_cap, sink.defined() ? sink.narrow(0, first, n) : sink};
  }
  /// For a kernel; good while this is.
  kernels::ScoreVariant variant() const {
    return {static_cast<float>(soft_cap), sink.defined() ? sink.data_ptr<float>() : nullptr};
  }

  /// Products q . k, float32, become scores in place.
  at::Tensor score_(at::Tensor products) const {
    products.mul_(scale);
    return soft_cap > 0 ? products.div_(soft_cap).tanh_().mul_(soft_cap) : products;
  }
  /// Scores [heads, queries, keys], -inf for a hidden key, as weights of the keys.
  at::Tensor weights_of(const at::Tensor& scores) const {
    if (!sink.defined()) return scores.softmax(-1);
    const at::Tensor column = sink.view({-1, 1, 1}).expand({scores.size(0), scores.size(1), 1});
    return at::cat({scores, column}, -1).softmax(-1).narrow(-1, 0, scores.size(-1));
  }
};

}  // namespace kvscope::engine
