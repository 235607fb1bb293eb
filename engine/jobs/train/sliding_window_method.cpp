// A model that is trained to see a window alone, as SP-KV's App. G has it beside its own: the control on the other side of `full`.
//
//     loss = mean NLL of the next token

#include <ATen/ATen.h>

#include "engine/jobs/train/gate_method.h"

namespace kvscope::engine {
namespace {

at::Tensor gates(const at::Tensor& output, const GateConfig&, const GateStep&) { return at::zeros_like(output); }

std::pair<at::Tensor, at::Tensor> loss(const GateLossInputs& inputs, const GateStep&) {
  const at::Tensor nll = mean_next_token_nll(inputs);
  return {nll, nll};
}

}  // namespace

GateMethod sliding_window_method() {
  return {.name = "sliding-window",
          .source = "SP-KV, App. G",
          .kind = {},
          .reads_teacher = false,
          .gates = gates,
          .loss = loss};
}

}  // namespace kvscope::engine
