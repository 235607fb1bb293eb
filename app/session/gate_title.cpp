#include "app/session/gate_title.h"

#include <algorithm>

#include "engine/core/files/gate/gate_name.h"

namespace kvscope::app {

namespace {

/// Empty of a gate that has a name of its own.
std::string_view words_of(std::string_view name) {
  if (name.starts_with(kBoardFolder)) return "heads from the head board";
  return name.starts_with(kStudyFolder) ? "heads from the study" : std::string_view();
}

}  // namespace

std::string gate_title(const GateFacts& gate) {
  const std::string_view words = words_of(gate.gate.name);
  if (words.empty() || gate.alpha.empty()) return gate.gate.name;
  const auto n_global = std::ranges::count_if(gate.alpha, [](float alpha) { return alpha >= 0.5f; });
  return std::string(words) + " (" + std::to_string(n_global) + " of " + std::to_string(gate.alpha.size()) + " global)";
}

std::string gate_title(const std::filesystem::path& path) {
  const std::string name = gate_name(path);
  const std::string_view words = words_of(name);
  return words.empty() ? name : std::string(words);
}

}  // namespace kvscope::app
