#pragma once
// The last queries of a sequence. Includes LibTorch.

#include "engine/decode/eviction/attention_method.h"

namespace kvscope::engine {

/// Rotated queries, that of position p in row p % n of [n_layers, n, n_heads * head_dim].
class QueryRing {
 public:
  QueryRing(const SequenceState& state, int n_rows);

  /// The newest of q [n, n_heads, head_dim], at positions first ... first + n - 1.
  void store(int layer, const at::Tensor& q, std::int64_t first);
  /// That of a decode step.
  void enqueue(const LayerStep& step);

  struct Queries {
    at::Tensor q, position;  // [n, n_heads, head_dim], [n]
  };
  /// The newest n of n_tokens, or as many as there are; the oldest first.
  Queries newest(int layer, std::int64_t n, std::int64_t n_tokens) const;

 private:
  int n_heads_, head_dim_;
  at::Tensor rows_;
};

}  // namespace kvscope::engine
