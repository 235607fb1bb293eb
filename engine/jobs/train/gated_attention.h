#pragma once
// Attention through soft gates: what SP-KV (eq. 6), WG-KV and DMS are trained with.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvscope::engine {

/// Causal attention in which a key behind the window carries the logarithm of its gate:
///
///     out_q = sum_{t <= q} p_qt v_t      p_q = softmax over t of  scale q_q . k_t + [q - t >= window] log_gate_t
///
/// q [B, T, n_heads, D], k and v [B, T, n_kv_heads, D], log_gate [B, n_kv_heads, T] float32, window >= 1
/// -> [B, T, n_heads * D] in q's type. Gradients go to all four.
///
/// In bfloat16 on CUDA two calls of the library's flash attention, merged by their log-sum-exp: a sliding window over the
/// plain keys, and causal attention of queries window ... T - 1 over keys 0 ... T - window - 1, whose gate is two more
/// channels (a high and a low part: one bfloat16 would blur a gate by 1 %). Elsewhere, and for heads of more than 248
/// channels, plain_gated_attention.
at::Tensor gated_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& log_gate,
                           std::int64_t window, double scale);

/// The definition, with the whole matrix of scores; differentiated by LibTorch.
at::Tensor plain_gated_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& log_gate, std::int64_t window, double scale);

}  // namespace kvscope::engine
