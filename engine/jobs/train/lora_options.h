#pragma once
// What a recipe says of an adapter.

#include <string>
#include <vector>

namespace kvscope::engine {

/// Of a recipe's key "adapter".
struct LoraOptions {
  int rank = 16;
  double alpha = 32;
  std::vector<std::string> targets;  // last parts of the matrices' names, "q_proj"; empty: all of attention and MLP
  double learning_rate = 2e-4;       // of the adapter; the phase's own is of its gate or scorer
};

}  // namespace kvscope::engine
