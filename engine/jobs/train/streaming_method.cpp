// StreamingLLM+ (KVpop's trained baseline): a base that is trained under the fixed mask of sinks and window.
//
//     loss = KL(dense base || student) of the next token, over the base's 256 likeliest (distillation.h)

#include <ATen/ATen.h>

#include "engine/jobs/train/distillation.h"
#include "engine/jobs/train/gate_method.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kTopTeacher = 256;

at::Tensor gates(const at::Tensor& output, const GateConfig&, const GateStep&) { return at::zeros_like(output); }

std::pair<at::Tensor, at::Tensor> loss(const GateLossInputs& inputs, const GateStep&) {
  const at::Tensor kl =
      distillation(inputs.student.flatten(0, 1), inputs.teacher.flatten(0, 1), inputs.base.output(), kTopTeacher);
  return {kl, kl};
}

}  // namespace

GateMethod streaming_method() {
  return {.name = "streaming", .source = "KVpop, section 4: StreamingLLM+", .kind = {}, .gates = gates, .loss = loss};
}

}  // namespace kvscope::engine
