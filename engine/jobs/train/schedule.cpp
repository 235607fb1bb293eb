#include "engine/jobs/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvscope::engine {

double phase_progress(const PhaseLength& length, std::int64_t steps_done, double seconds) {
  const double by_steps = length.steps > 0 ? static_cast<double>(steps_done) / static_cast<double>(length.steps) : 1;
  const double by_time = length.max_seconds > 0 ? seconds / length.max_seconds : 0;
  return std::clamp(std::max(by_steps, by_time), 0.0, 1.0);
}

double learning_rate(const OptimizerOptions& options, std::int64_t step, double progress) {
  const double warm = options.warm_up > 0 ? std::min(1.0, static_cast<double>(step + 1) / options.warm_up) : 1;
  const double cosine = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return options.learning_rate * warm * (options.final_share + (1 - options.final_share) * cosine);
}

}  // namespace kvscope::engine
