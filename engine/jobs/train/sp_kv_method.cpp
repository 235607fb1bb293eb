// SP-KV, phase 1 on a frozen base (its section 3.2, App. C.6): utilities that lower the next-token loss.
//
//     loss = mean NLL of the next token + weight * mean(u)          (eq. 6 in attention; the density term is eq. 13)

#include <ATen/ATen.h>

#include "engine/jobs/train/gate_method.h"
#include "engine/jobs/train/weighted_cross_entropy.h"

namespace kvscope::engine {
namespace {

at::Tensor gates(const at::Tensor& output, const GateConfig&, const GateStep&) { return output.sigmoid(); }

std::pair<at::Tensor, at::Tensor> loss(const GateLesson& lesson, const GateStep& step) {
  const auto n = lesson.next.numel();
  const at::Tensor share = at::full({n}, 1.0 / static_cast<double>(n), lesson.gates.options().requires_grad(false));
  const auto nll =
      weighted_cross_entropy(lesson.student.flatten(0, 1), lesson.base.output(), lesson.next.reshape({-1}), share);
  return {step.weight > 0 ? nll.loss + step.weight * lesson.gates.mean() : nll.loss, nll.loss};
}

}  // namespace

GateMethod sp_kv_method() {
  return {.name = "sp-kv",
          .source = "SP-KV, eq. 6 and 13",
          .kind = GateKind::sp_kv,
          .hidden = 128,
          .bias = 5,
          .reads_teacher = false,
          .gates = gates,
          .loss = loss};
}

}  // namespace kvscope::engine
