// The section "scorer" of a recipe.

#include <algorithm>

#include "engine/jobs/train/recipe_section.h"

namespace kvscope::engine {
namespace {

std::vector<int> parse_top_k(const RecipeSection& section, const std::string& file, int most) {
  std::vector<int> list;
  const auto& raw = section->raw();
  if (!raw.contains("top_k") || !raw.at("top_k").is_array() || raw.at("top_k").empty()) {
    recipe_error(file, "scorer.top_k", "nothing", "a list of long-range budgets");
  }
  for (const auto& entry : raw.at("top_k")) {
    if (!entry.is_number_integer() || entry.get<std::int64_t>() < 1 || entry.get<std::int64_t>() > most) {
      recipe_error(file, "scorer.top_k", entry.dump(), "integers in [1, " + std::to_string(most) + "]");
    }
    list.push_back(entry.get<int>());
  }
  return list;
}

GateKind parse_scorer_kind(const std::string& text, const std::string& file) {
  if (text == "mlstm") return GateKind::kvpop_mlstm;
  if (text == "mlp") return GateKind::kvpop_mlp;
  if (text == "linear") return GateKind::kvpop_linear;
  recipe_error(file, "scorer.kind", text, "mlstm, mlp or linear");
}

/// What trains a scorer through the model, and what it must not be beside.
void parse_student(const RecipeSection& section, const std::string& file, ScorerOptions& scorer) {
  scorer.adapter = parse_adapter(section, file, "scorer");
  scorer.all_weights = parse_all_weights(section, file, "scorer", scorer.optimizer.learning_rate);
  const auto only = [&](const char* key, const char* with, bool fits) {
    if (section->has(key) && !fits)
      recipe_error(file, std::string("scorer.") + key, std::string("no ") + with,
                   std::string("this key only with ") + with);
  };
  for (const char* key : {"top_teacher", "lse", "kl_weight"}) only(key, "adapter or all_weights", scorer.trains_base());
  only("capacity", "adapter, all_weights or output_weight", scorer.trains_base() || scorer.output_weight > 0);
  // Ages count differently in heads of different decay: what is last would change from query to query.
  if (scorer.pooled && scorer.decay) recipe_error(file, "scorer.capacity", "pooled", "per-head with a learned decay");
}

/// The network and its decay. What another kind has is refused rather than ignored.
void parse_network(const RecipeSection& section, const std::string& file, ScorerOptions& scorer) {
  const std::string is = section->text_or("kind", "mlstm");
  scorer.kind = parse_scorer_kind(is, file);
  const bool memory = scorer.kind == GateKind::kvpop_mlstm;
  const auto only = [&](const char* key, const char* kind, bool fits) {
    if (section->has(key) && !fits)
      recipe_error(file, std::string("scorer.") + key, std::string("a key of kind ") + kind, "none for kind " + is);
  };
  only("hidden", "mlp", scorer.kind == GateKind::kvpop_mlp);
  for (const char* key : {"immediate", "soft_cap", "feature_map", "head_norm", "cached_values", "skip"})
    only(key, "mlstm", memory);
  scorer.delay = memory && !section->boolean_or("immediate", false) ? scorer.window : 0;
  if (section->has("decay_min") || section->has("decay_max")) {
    DecayRange decay;
    decay.most = section->number_or("decay_max", decay.most, 1e-3, 1);
    decay.least = section->number_or("decay_min", std::min(decay.least, decay.most), 1e-3, decay.most);
    scorer.decay = decay;
  }
}

}  // namespace

ScorerOptions parse_scorer(const nlohmann::json& json, const std::string& file, int length) {
  ScorerOptions scorer;
  scorer.optimizer = {.beta2 = 0.999, .weight_decay = 0.01, .clip = 0, .warm_up = 50};
  scorer.batch = 16;
  scorer.heldout_sequences = 32;
  const RecipeSection section(json, "scorer", file, scorer,
                              {"steps", "max_seconds", "kind", "immediate", "decay_min", "decay_max", "sinks", "window",
                               "top_k", "adapter", "all_weights"});
  scorer.length = parse_length(section);
  scorer.n_sink = section.integer("sinks", scorer.n_sink, 0, length);
  scorer.window = section.integer("window", scorer.window, 1, length);
  parse_network(section, file, scorer);
  // At least one query must see a full cache and a newcomer: sinks + window + top_k < length.
  scorer.top_k = parse_top_k(section, file, std::max(0, length - 1 - scorer.n_sink - scorer.window));
  parse_student(section, file, scorer);
  return scorer;
}

}  // namespace kvscope::engine
