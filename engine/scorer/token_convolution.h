#pragma once
// The convolution between the linear layers of SP-KV's utility predictor (App. C.4). Includes LibTorch.

#include <ATen/ATen.h>

#include <memory>

#include "engine/scorer/token_scorer.h"
#include "kernels/operation.h"

namespace kvscope::engine {

/// Over the hidden units a of the tokens, unit by unit, K odd:
///
///     c_t = sum_j conv[j] a_(t - K/2 + j),   j = 0 ... K - 1,   a_t = 0 for t < 0
///
/// known once token t + K/2 is there. What is behind the text's end is asked by nobody: a token's score is read when it
/// leaves the window, K/2 tokens behind it or later. Sums in float32, rounded once to the units' dtype.
class TokenConvolution {
 public:
  /// conv: [n_layers, M, K] float32. dtype: of the hidden units.
  TokenConvolution(const at::Tensor& conv, at::ScalarType dtype);

  double weight_bytes() const { return static_cast<double>(taps_.nbytes()); }
  /// Of the rows of the last K tokens, all layers.
  double memory_bytes() const;

  std::unique_ptr<ScorerMemory> new_memory() const;
  /// hidden: [n, M] of tokens first ... first + n - 1, which follow on what `memory` has. -> [n, M]: row i is c of token
  /// first + i - K/2, with no meaning before the first. The memory's tensors stay where they are: a captured step has
  /// their addresses.
  at::Tensor absorb(int layer, const at::Tensor& hidden, std::int64_t first, ScorerMemory& memory) const;
  /// The same of one token at *position, in place: hidden [M] becomes c of token *position - K/2.
  void enqueue(int layer, void* hidden, const std::int32_t* position, ScorerMemory& memory, kernels::Place place) const;

 private:
  at::ScalarType dtype_;
  at::Tensor taps_;  // [n_layers, K, M]: a step reads a tap of all units at once
};

}  // namespace kvscope::engine
