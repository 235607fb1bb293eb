// The section "gate" of a recipe whose method is kvzap.

#include "engine/jobs/train/recipe_section.h"

namespace kvscope::engine {

KvzapOptions parse_kvzap(const nlohmann::json& json, const std::string& file) {
  KvzapOptions kvzap;
  kvzap.optimizer = {
      .learning_rate = 5e-3, .beta2 = 0.999, .weight_decay = 0.01, .clip = 1, .warm_up = 30, .final_share = 0};
  kvzap.batch = 4;
  const RecipeSection section(json, "gate", file, kvzap, {"method", "steps", "max_seconds"});
  kvzap.length = parse_length(section);
  if (section->has("threshold") && section->has("density")) {
    recipe_error(file, "gate.density", "a threshold as well", "only one of them: a density chooses the threshold");
  }
  return kvzap;
}

}  // namespace kvscope::engine
