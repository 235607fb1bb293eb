#pragma once
// AdamW (Loshchilov and Hutter 2019) with clipping of the gradient's norm, over flat parameters.

#include "engine/jobs/train/flat_parameters.h"
#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

class AdamW {
 public:
  AdamW(FlatParameters& parameters, const OptimizerOptions& options);
  /// One update from the gradients that have added up; then zeroes them and publishes the new values. Does not wait
  /// for the device.
  void step(double learning_rate);

 private:
  FlatParameters& parameters_;
  OptimizerOptions options_;
  at::Tensor mean_, square_;              // running moments, [n_elements]
  at::Tensor decayed_step_, other_step_;  // counts on the device, one a group
};

}  // namespace kvscope::engine
