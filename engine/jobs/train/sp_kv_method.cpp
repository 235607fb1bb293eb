// SP-KV (its section 2.2): utilities that lower the next-token loss, on a frozen base (App. C.6) or with it. The recipe's hard_share is its
// phase 2, `sampled` the binary gates of App. B, `kernel` the convolution of App. C.4 (gate_module.cpp).
//
//     loss = mean NLL of the next token + weight * mean(u)          (eq. 6 in attention)
//
// The paper's density regulariser (eq. 13) is -lambda mean(u), weight < 0: it keeps utilities up. A price, weight > 0, pushes
// them down; the paper does not have it.

#include <ATen/ATen.h>

#include "engine/jobs/train/gate_method.h"

namespace kvscope::engine {
namespace {

at::Tensor gates(const at::Tensor& output, const GateConfig&, const GateStep&) { return output.sigmoid(); }

std::pair<at::Tensor, at::Tensor> loss(const GateLossInputs& inputs, const GateStep& step) {
  const at::Tensor nll = mean_next_token_nll(inputs);
  return {step.weight != 0 ? nll + step.weight * inputs.gates.mean() : nll, nll};
}

}  // namespace

GateMethod sp_kv_method() {
  return {.name = "sp-kv",
          .source = "SP-KV, eq. 6",
          .kind = GateKind::sp_kv,
          .hidden = 128,
          .bias = 5,
          .prices_utility = true,
          .reads_teacher = false,
          .gates = gates,
          .loss = loss};
}

}  // namespace kvscope::engine
