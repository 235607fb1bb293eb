#include "engine/jobs/train/optimizer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvscope::engine {

AdamW::AdamW(FlatParameters& parameters, const OptimizerOptions& options) : options_(options) { add(parameters, 1); }

void AdamW::add(FlatParameters& parameters, double rate) {
  const at::Tensor& masters = parameters.masters();
  groups_.push_back({.parameters = parameters,
                     .rate = rate,
                     .mean = at::zeros_like(masters),
                     .square = at::zeros_like(masters),
                     .decayed_step = at::zeros({}, masters.options()),
                     .other_step = at::zeros({}, masters.options())});
}

void AdamW::step(double learning_rate) {
  const c10::NoGradGuard no_grad;
  for (Group& group : groups_) {
    if (group.rate > 0) step(group, group.rate * learning_rate);
    group.parameters.zero_gradients();
    group.parameters.publish();
  }
}

void AdamW::step(Group& group, double learning_rate) {
  at::Tensor gradients = group.parameters.gradients();
  if (options_.clip > 0) {
    // The factor stays on the device: reading the norm here would stall the host once a step.
    gradients = gradients * (options_.clip / (gradients.norm() + 1e-6)).clamp_max(1.0);
  }
  const auto update = [&](std::int64_t begin, std::int64_t n, double weight_decay, at::Tensor& step) {
    if (n == 0) return;
    step.add_(1);
    at::_fused_adamw_({group.parameters.masters().narrow(0, begin, n)}, {gradients.narrow(0, begin, n)},
                      {group.mean.narrow(0, begin, n)}, {group.square.narrow(0, begin, n)}, {}, {step}, learning_rate,
                      options_.beta1, options_.beta2, weight_decay, /*eps=*/1e-8, /*amsgrad=*/false,
                      /*maximize=*/false);
  };
  const auto n_decayed = group.parameters.n_decayed();
  update(0, n_decayed, options_.weight_decay, group.decayed_step);
  update(n_decayed, group.parameters.n_elements() - n_decayed, 0, group.other_step);
}

std::vector<at::Tensor> AdamW::gradient_sums() const {
  std::vector<at::Tensor> sums;
  for (const Group& group : groups_) sums.push_back(group.parameters.gradient_sums());
  return sums;
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::state() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::string which = i == 0 ? "" : "." + std::to_string(i + 1);  // "parameters.2"
    const Group& group = groups_[i];
    all.insert(all.end(), {{"parameters" + which, group.parameters.masters()},
                           {"mean" + which, group.mean},
                           {"square" + which, group.square},
                           {"decayed_step" + which, group.decayed_step},
                           {"other_step" + which, group.other_step}});
  }
  return all;
}

void AdamW::restored() {
  for (Group& group : groups_) group.parameters.publish();
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
