// WG-KV (its section 3): the gate of a token is kept open as far as the model's last hidden states need it.
//
//     loss = |h - h_dense|^2 / |h_dense|^2 + lambda mean(g + g (1 - g))
//
// The distance is relative to the dense states' mean square, so that one lambda means the same for every model; the
// second part of the price pushes gates to 0 or 1, where a threshold finds them.

#include <ATen/ATen.h>

#include "engine/jobs/train/gate_method.h"

namespace kvscope::engine {
namespace {

at::Tensor gates(const at::Tensor& output, const GateConfig&, const GateStep&) { return output.sigmoid(); }

std::pair<at::Tensor, at::Tensor> loss(const GateLossInputs& inputs, const GateStep& step) {
  const at::Tensor dense = inputs.teacher.to(at::kFloat);
  const at::Tensor distance = (inputs.student.to(at::kFloat) - dense).square().mean() / dense.square().mean();
  const at::Tensor price = (inputs.gates + inputs.gates * (1 - inputs.gates)).mean();
  return {distance + step.weight * price, distance};
}

}  // namespace

GateMethod wg_kv_method() {
  return {.name = "wg-kv",
          .source = "WG-KV, section 3",
          .kind = GateKind::wg_kv,
          .hidden = 64,
          .bias = 3,
          .gates = gates,
          .loss = loss};
}

}  // namespace kvscope::engine
