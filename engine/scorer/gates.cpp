#include "engine/scorer/gates.h"

#include <algorithm>
#include <set>

#include "engine/model/weights.h"
#include "engine/scorer/make_scorer.h"

namespace kvscope::engine {

void Gates::add(const GateFile& gate, const Model& model) {
  if (gate.config.kind == GateKind::duo) {
    head_alpha_ = gate.tensors.at("alpha").values;
    return;
  }
  add(make_scorer(gate, model.config, *model.weights));
  if (gate.config.kind == GateKind::dms) model.weights->gate_channel = model.config.head_dim - 1;
}

const TokenScorer* Gates::scorer(std::span<const std::string_view> kinds) const {
  for (const auto& scorer : scorers_) {
    if (kinds.empty() || std::find(kinds.begin(), kinds.end(), scorer->kind()) != kinds.end()) return scorer.get();
  }
  return nullptr;
}

const TokenScorer& Gates::random_scorer(std::uint64_t seed, const Model& model) const {
  std::shared_ptr<TokenScorer>& scorer = random_[seed];
  if (!scorer) scorer = make_random_scorer(seed, model.config, *model.weights);
  return *scorer;
}

std::string Gates::description() const {
  std::string text;
  for (const auto& scorer : scorers_) text += (text.empty() ? "" : "; ") + scorer->description();
  return text;
}

std::vector<std::filesystem::path> gates_beside(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  if (gate_format(folder)) found.push_back(folder);
  std::error_code none;
  std::set<std::filesystem::path> inside;  // in the order of their names
  for (const auto& entry : std::filesystem::directory_iterator(folder / "gates", none)) inside.insert(entry.path());
  for (const std::filesystem::path& path : inside) {
    if (gate_format(path)) found.push_back(path);
  }
  return found;
}

}  // namespace kvscope::engine
