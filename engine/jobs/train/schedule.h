#pragma once
// When a phase ends and what the learning rate is until then.

#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

/// How far a phase is, in [0, 1]: the greater of the shares of steps and of seconds.
double phase_progress(const PhaseLength& length, std::int64_t steps_done, double seconds);

/// peak * min(1, (step + 1) / warm_up) * (final + (1 - final) * (1 + cos(pi * progress)) / 2)
double learning_rate(const OptimizerOptions& options, std::int64_t step, double progress);

}  // namespace kvscope::engine
