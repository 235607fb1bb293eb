#pragma once
// How much of what the oracle keeps a scorer keeps too, for the end of training.

#include <ATen/core/Tensor.h>

namespace kvscope::engine {

/// scores, target [n_kv_heads, B, T] -> [n_kv_heads] float32 on the CPU: the share of the oracle's long-range tokens
/// that running top-k by `scores` keeps, mean over q from n_sink + window + top_k on and over sequences. The numerator
/// and the denominator both exclude sinks and window.
at::Tensor oracle_recall(const at::Tensor& scores, const at::Tensor& target, int n_sink, int window, int top_k);

}  // namespace kvscope::engine
