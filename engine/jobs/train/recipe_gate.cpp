// The section "gate" of a recipe.

#include "engine/jobs/train/recipe_section.h"

namespace kvscope::engine {
namespace {

constexpr const char *kPrice = "price", *kRegulariser = "density_regulariser";  // of SP-KV's mean utility

GateStage parse_stage(const nlohmann::json& json, const std::string& file) {
  const nlohmann::json parent = {{"stage", json}};
  GateStage stage;
  const RecipeSection section(parent, "stage", file, stage, {"steps", "max_seconds", kPrice, kRegulariser});
  stage.length = parse_length(section);
  const int n = section->has(kPrice) + section->has(kRegulariser) + section->has("weight");
  if (n > 1) recipe_error(file, "gate.stages", "several of weight, price and density_regulariser", "one of them");
  stage.is_of_utility = section->has(kPrice) || section->has(kRegulariser);
  if (section->has(kPrice)) stage.weight = section->number(kPrice, 0, 1e6);
  if (section->has(kRegulariser)) stage.weight = -section->number(kRegulariser, 0, 1e6);
  return stage;
}

std::vector<double> parse_thresholds(const RecipeSection& section, const std::string& file) {
  std::vector<double> thresholds;
  if (!section->has("thresholds")) return thresholds;
  const nlohmann::json& list = section->raw().at("thresholds");
  if (!list.is_array()) recipe_error(file, "gate.thresholds", list.dump(), "a list of numbers between 0 and 1");
  for (const nlohmann::json& one : list) {
    if (!one.is_number() || !(one.get<double>() > 0 && one.get<double>() < 1))
      recipe_error(file, "gate.thresholds", one.dump(), "numbers between 0 and 1");
    thresholds.push_back(one.get<double>());
  }
  return thresholds;
}

}  // namespace

GateOptions parse_gate(const nlohmann::json& json, const std::string& file, int length) {
  GateOptions gate;
  gate.optimizer = {.beta2 = 0.999, .weight_decay = 0.01, .clip = 1, .warm_up = 30};
  gate.batch = 4;
  const RecipeSection section(json, "gate", file, gate,
                              {"method", "window", "sinks", "stages", "adapter", "all_weights", "thresholds"});
  gate.method = section->text("method");
  if (gate.kernel % 2 == 0) {
    recipe_error(file, "gate.kernel", std::to_string(gate.kernel),
                 "an odd number: the same number of tokens before and after");
  }
  if (section->has("window")) gate.window = section.integer("window", 1, 1, length);
  if (section->has("sinks")) gate.n_sink = section.integer("sinks", 0, 0, length);
  gate.adapter = parse_adapter(section, file, "gate");
  gate.all_weights = parse_all_weights(section, file, "gate", gate.optimizer.learning_rate);
  if (gate.hard_share > 0 && !gate.trains_base()) {
    recipe_error(file, "gate.hard_share", "no adapter",
                 "an adapter or all_weights: while the gate is hard it does not learn, so something else must");
  }
  gate.thresholds = parse_thresholds(section, file);
  const auto& raw = section->raw();
  if (!raw.contains("stages") || !raw.at("stages").is_array() || raw.at("stages").empty()) {
    recipe_error(file, "gate.stages", "nothing", "a list of {\"weight\", \"steps\"}");
  }
  for (const auto& stage : raw.at("stages")) {
    gate.stages.push_back(parse_stage(stage, file));
    for (std::size_t i = 0; i + 1 < gate.stages.size(); ++i) {
      if (gate.stages[i].weight == gate.stages.back().weight) {
        recipe_error(file, "gate.stages", "two stages with the same weight", "different weights: each names its gate");
      }
    }
  }
  return gate;
}

}  // namespace kvscope::engine
