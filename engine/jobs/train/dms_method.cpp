// DMS (Łańcucki et al. 2025) with a projection of its own: token t + 1 marks token t for eviction.
//
//     alpha_t = sigmoid((scale y_{t+1} + offset + log(u / (1 - u))) / 0.1),  u uniform: Gumbel-sigmoid; gate 1 - alpha_t
//     loss    = KL(dense || gated) of the next token + max(0, progress * weight - mean alpha)
//
// The evicted share that is asked for rises linearly from 0 to the stage's weight. The last token of a sequence has no
// successor and stays.

#include <ATen/ATen.h>

#include "engine/jobs/train/distillation.h"
#include "engine/jobs/train/gate_method.h"

namespace kvscope::engine {
namespace {

constexpr double kTemperature = 0.1;

at::Tensor gates(const at::Tensor& output, const GateConfig& config, const GateStep&) {
  const at::Tensor mark = output.narrow(2, 1, output.size(2) - 1) * config.scale + config.offset;
  const at::Tensor u = at::rand_like(mark).clamp(1e-6, 1 - 1e-6);
  const at::Tensor keep = (-(mark + (u / (1 - u)).log()) / kTemperature).sigmoid();
  return at::cat({keep, at::ones_like(output.narrow(2, 0, 1))}, 2);
}

std::pair<at::Tensor, at::Tensor> loss(const GateLossInputs& inputs, const GateStep& step) {
  const at::Tensor kl = distillation(inputs.student.flatten(0, 1), inputs.teacher.flatten(0, 1), inputs.base.output());
  const at::Tensor evicted = 1 - inputs.gates.mean();
  return {kl + (step.progress * step.weight - evicted).clamp_min(0), kl};
}

}  // namespace

GateMethod dms_method() {
  return {.name = "dms",
          .source = "DMS, section 3.2",
          .kind = GateKind::dms_separate,
          .hidden = 0,
          .bias = 0,
          .gates = gates,
          .loss = loss};
}

}  // namespace kvscope::engine
