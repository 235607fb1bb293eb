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
  /// Others at `rate` times the learning rate of the first; the norm of each is clipped by itself. Before the first step.
  void add(FlatParameters& parameters, double rate);
  /// From now on the first parameters stay as they are.
  void freeze_first() { groups_.front().rate = 0; }
  /// What the next step goes by: the buffers themselves, in the order in which they were added.
  std::vector<at::Tensor> gradient_sums() const;
  /// One update from the gradients that have added up; then zeroes them and publishes the new values. Does not wait
  /// for the device.
  void step(double learning_rate);

  /// The tensors that a step changes, under names; they are the state itself, not copies. After writing to them call restored().
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  void restored();

 private:
  struct Group {
    FlatParameters& parameters;
    double rate;                          // of the learning rate; 0: frozen
    at::Tensor mean, square;              // running moments, [n_elements]
    at::Tensor decayed_step, other_step;  // counts on the device
  };
  void step(Group& group, double learning_rate);

  OptimizerOptions options_;
  std::vector<Group> groups_;
};

/// How far a phase is, in [0, 1]: the greater of the shares of steps and of seconds.
double phase_progress(const PhaseLength& length, std::int64_t steps_done, double seconds);

/// peak * min(1, (step + 1) / warm_up) * (final + (1 - final) * (1 + cos(pi * progress)) / 2)
double learning_rate(const OptimizerOptions& options, std::int64_t step, double progress);

}  // namespace kvscope::engine
