#pragma once
// What a layer's gates are for attention and for the loss while they are drawn or become hard (SP-KV eq. 7 and 10 to 12).

#include <ATen/core/Tensor.h>

namespace kvscope::engine {

struct GateForm {
  bool binary = false;           // gates are 0 or 1, or nearly, and do not learn
  bool sampled = false;          // soft gates are drawn (eq. 10)
  double least_probability = 0;  // of both values of a drawn gate (eq. 12)
  double hard = 0;               // alpha of eq. 7
  double open_from = 0.5;        // tau of eq. 7
  int n_sink = 0;                // first tokens, whose gates are open
};

/// Gates [B, n_kv_heads, T] -> what attention adds to the scores of their keys.
at::Tensor log_gates(const at::Tensor& gate, const GateForm& form);
/// Gates as the loss counts them: (1 - alpha) u + alpha [u >= tau], without a gradient if alpha > 0, and sinks open.
at::Tensor counted_gates(at::Tensor gate, const GateForm& form);

}  // namespace kvscope::engine
