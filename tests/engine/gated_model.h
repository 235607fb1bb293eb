#pragma once
// A small random model with gates of every kind, for tests of the policies that read them.

#include <string>

#include "engine/core/files/gate/gate_file.h"
#include "tests/engine/small_model.h"

namespace kvscope::test {

/// A gate of this kind for `model`, its numbers drawn from a formula so that about half of the tokens pass its threshold. Its
/// window, and a delayed scorer's delay, is 16. kernel: of SP-KV's convolution, whose delay follows; variant: of KVpop's mLSTM.
GateFile random_gate(GateKind kind, int delay = 0, int kernel = 1, const MlstmVariant& variant = {},
                     const ModelConfig& model = small_config());

/// `config`, of the shape that the gates were made for, with random weights and these gates, in this order.
engine::LoadedModel gated_model(const std::vector<GateFile>& gates, const std::string& device = "cpu",
                                const std::string& dtype = "float32", const ModelConfig& config = small_config());

}  // namespace kvscope::test
