#include "engine/scorer/loaded_model.h"

#include "engine/core/support/error.h"
#include "engine/model/weights.h"
#include "engine/scorer/kvpop_scorer.h"

namespace kvscope::engine {

LoadedModel::LoadedModel(Model model, Gates gates) : model_(std::move(model)), gates_(std::move(gates)) {
  model_.info.scorer = gates_.description();
}

LoadedModel LoadedModel::load(const std::filesystem::path& folder, const LoadOptions& options,
                              const LoadProgress& progress) {
  Model model = Model::load(folder, options.device, options.dtype, progress);
  Gates gates;
  for (const std::string& path : options.gates) gates.add(load_gate(path, model.config), model);
  for (const std::filesystem::path& path : gates_beside(folder)) gates.add(load_gate(path, model.config), model);
  return {std::move(model), std::move(gates)};
}

LoadedModel LoadedModel::random(const ModelConfig& config, std::uint64_t seed, const LoadOptions& options,
                                int scorer_window) {
  Model model = Model::random(config, seed, options.device, options.dtype);
  Gates gates;
  if (scorer_window > 0) {
    gates.add(std::make_shared<KvpopScorer>(KvpopScorerConfig{.delay = scorer_window}, config, formula_source(seed),
                                            model.weights->device));
  }
  for (const std::string& path : options.gates) gates.add(load_gate(path, config), model);
  return {std::move(model), std::move(gates)};
}

int LoadedModel::scorer_delay() const {
  static constexpr std::string_view kKvpop[] = {"kvpop_mlstm", "kvpop_mlp", "kvpop_linear"};
  const TokenScorer* found = scorer(kKvpop);
  return found != nullptr ? found->delay() : 0;
}

const Tokenizer& LoadedModel::tokenizer() const {
  if (!has_tokenizer()) throw Error({.file = info().name, .found = "no tokenizer", .expected = "tokenizer.json"});
  return *model_.tokenizer;
}

}  // namespace kvscope::engine
