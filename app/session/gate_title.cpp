#include "app/session/gate_title.h"

#include <algorithm>

#include "engine/core/files/gate/gate_name.h"

namespace kvscope::app {

std::string gate_title(const GateFacts& gate) {
  const std::string& name = gate.gate.name;
  if (!name.starts_with(kBoardFolder) || gate.alpha.empty()) return name;
  const auto n_global = std::ranges::count_if(gate.alpha, [](float alpha) { return alpha >= 0.5f; });
  return "heads of the board (" + std::to_string(n_global) + " of " + std::to_string(gate.alpha.size()) + " global)";
}

std::string gate_title(const std::filesystem::path& path) {
  const std::string name = gate_name(path);
  return name.starts_with(kBoardFolder) ? "heads of the board" : name;
}

}  // namespace kvscope::app
