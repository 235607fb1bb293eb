#pragma once
#include "kernels/admit_step.h"

namespace kvscope::kernels {

/// The retain_step within an admit_step, for back ends that read the position on the host. Without `score` and `slot`.
inline RetainStepArgs contest_of(const AdmitStepArgs& args) {
  return {.cache = args.cache,
          .rule = args.rule,
          .score = nullptr,
          .log_gamma = args.log_gamma,
          .threshold = args.threshold,
          .head_threshold = args.head_threshold,
          .strict = args.strict,
          .position = *args.position,
          .n_sink = args.n_sink,
          .window = args.window,
          .top_k = args.top_k,
          .head_top_k = args.head_top_k,
          .protect = args.protect,
          .decay_stride = args.decay_stride,
          .decision = args.decision,
          .slot = nullptr};
}

}  // namespace kvscope::kernels
