#include "engine/core/record/gate_scores.h"

#include <algorithm>

#include "engine/core/record/check.h"

namespace kvscope {

const GateScores* scores_of(const ScoresOfGates& gates, std::span<const std::string_view> kinds) {
  const auto found = std::ranges::find_if(
      gates, [&](const GateScores& one) { return kinds.empty() || std::ranges::count(kinds, one.gate.kind) > 0; });
  return found == gates.end() ? nullptr : &*found;
}

void check_gate_scores(const ScoresOfGates& gates, const ModelInfo& model, int n_tokens) {
  const std::size_t n_heads = static_cast<std::size_t>(model.n_layers) * model.n_kv_heads;
  for (const GateScores& one : gates) {
    const HeadSeries<float>& scores = one.scores;
    if (scores.n_layers() != model.n_layers || scores.n_kv_heads() != model.n_kv_heads)
      throw RunFault("scores",
                     std::to_string(scores.n_layers()) + " x " + std::to_string(scores.n_kv_heads()) + " heads",
                     std::to_string(model.n_layers) + " x " + std::to_string(model.n_kv_heads));
    for (int layer = 0; layer < model.n_layers; ++layer) {
      for (int head = 0; head < model.n_kv_heads; ++head) {
        if (std::ssize(scores.row(layer, head)) == n_tokens) continue;
        throw RunFault("scores", std::to_string(scores.row(layer, head).size()) + " scores", std::to_string(n_tokens));
      }
    }
    const bool are_decays = std::ranges::all_of(one.log_gamma, [](float value) { return value <= 0; });
    if (!are_decays || (!one.log_gamma.empty() && one.log_gamma.size() != n_heads))
      throw RunFault("log_gamma", std::to_string(one.log_gamma.size()) + " numbers",
                     std::to_string(n_heads) + ", 0 or less, or none");
  }
}

}  // namespace kvscope
