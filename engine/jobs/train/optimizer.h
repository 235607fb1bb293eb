#pragma once
// AdamW (Loshchilov and Hutter 2019) with clipping of the gradient's norm, over flat parameters; when a phase ends and
// what the learning rate is until then.

#include <string>
#include <utility>
#include <vector>

#include "engine/jobs/train/flat_parameters.h"
#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

class AdamW {
 public:
  AdamW(FlatParameters& parameters, const OptimizerOptions& options);
  /// One update from the gradients that have added up; then zeroes them and publishes the new values. Does not wait
  /// for the device.
  void step(double learning_rate);

  /// The tensors that a step changes, under names; they are the state itself, not copies. After writing to them call restored().
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  void restored() { parameters_.publish(); }

 private:
  FlatParameters& parameters_;
  OptimizerOptions options_;
  at::Tensor mean_, square_;              // running moments, [n_elements]
  at::Tensor decayed_step_, other_step_;  // counts on the device, one a group
};

/// How far a phase is, in [0, 1]: the greater of the shares of steps and of seconds.
double phase_progress(const PhaseLength& length, std::int64_t steps_done, double seconds);

/// peak * min(1, (step + 1) / warm_up) * (final + (1 - final) * (1 + cos(pi * progress)) / 2)
double learning_rate(const OptimizerOptions& options, std::int64_t step, double progress);

}  // namespace kvscope::engine
