#pragma once
// What the scorers that are made from gate files share. Includes LibTorch.

#include <ATen/ATen.h>

#include <string>

#include "engine/core/files/gate/gate_file.h"
#include "engine/model/weights.h"

namespace kvscope::engine {

/// A tensor of the gate on the model's device, float32.
at::Tensor gate_tensor(const GateFile& gate, const char* name, const Weights& weights);

/// Of a hidden layer's outputs, as the gate has it.
at::Tensor activate(const at::Tensor& x, Activation activation);

/// "wg kv, delay 0": what a trace says of the scorer.
std::string describe(const GateFile& gate, int delay);

}  // namespace kvscope::engine
