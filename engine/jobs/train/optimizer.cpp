#include "engine/jobs/train/optimizer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvscope::engine {

AdamW::AdamW(FlatParameters& parameters, const OptimizerOptions& options)
    : parameters_(parameters),
      options_(options),
      mean_(at::zeros_like(parameters.masters())),
      square_(at::zeros_like(parameters.masters())),
      decayed_step_(at::zeros({}, parameters.masters().options())),
      other_step_(at::zeros({}, parameters.masters().options())) {}

void AdamW::step(double learning_rate) {
  const c10::NoGradGuard no_grad;
  at::Tensor gradients = parameters_.gradients();
  if (options_.clip > 0) {
    // The factor stays on the device: reading the norm here would stall the host once a step.
    gradients = gradients * (options_.clip / (gradients.norm() + 1e-6)).clamp_max(1.0);
  }
  const auto update = [&](std::int64_t begin, std::int64_t n, double weight_decay, at::Tensor& step) {
    if (n == 0) return;
    step.add_(1);
    at::_fused_adamw_({parameters_.masters().narrow(0, begin, n)}, {gradients.narrow(0, begin, n)},
                      {mean_.narrow(0, begin, n)}, {square_.narrow(0, begin, n)}, {}, {step}, learning_rate,
                      options_.beta1, options_.beta2, weight_decay, /*eps=*/1e-8, /*amsgrad=*/false,
                      /*maximize=*/false);
  };
  const auto n_decayed = parameters_.n_decayed();
  update(0, n_decayed, options_.weight_decay, decayed_step_);
  update(n_decayed, parameters_.n_elements() - n_decayed, 0, other_step_);
  parameters_.zero_gradients();
  parameters_.publish();
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::state() const {
  return {{"parameters", parameters_.masters()},
          {"mean", mean_},
          {"square", square_},
          {"decayed_step", decayed_step_},
          {"other_step", other_step_}};
}

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
