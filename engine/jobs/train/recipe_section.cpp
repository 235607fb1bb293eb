#include "engine/jobs/train/recipe_section.h"

#include "engine/core/support/error.h"

namespace kvscope::engine {

void recipe_error(const std::string& file, const std::string& where, const std::string& found,
                  const std::string& expected) {
  throw Error({.file = file, .where = where, .found = found, .expected = expected});
}

RecipeSection::RecipeSection(const nlohmann::json& parent, const std::string& key, const std::string& file,
                             const std::set<std::string>& known)
    : json_(parent.contains(key) ? parent.at(key) : nlohmann::json::object()), object_(json_, file, key) {
  if (!json_.is_object()) recipe_error(file, key, json_.type_name(), "an object");
  for (const auto& [name, value] : json_.items()) {
    if (known.contains(name)) {
      if (value.is_null()) recipe_error(file, key + "." + name, "null", "a value, or leave out the key");
      continue;
    }
    std::string list;
    for (const auto& entry : known) list += (list.empty() ? "" : ", ") + entry;
    recipe_error(file, key + "." + name, "an unknown key", "one of " + list);
  }
}

std::set<std::string> phase_keys(std::set<std::string> own) {
  own.insert({"batch", "learning_rate", "beta1", "beta2", "weight_decay", "clip", "warm_up", "final_share", "log_every",
              "heldout_sequences"});
  return own;
}

PhaseLength parse_length(const RecipeSection& section) {
  return {section->integer("steps", 0, 100'000'000), section->number_or("max_seconds", 0, 0, 1e7)};
}

void parse_phase(const RecipeSection& section, PhaseOptions& phase) {
  phase.batch = section.integer("batch", phase.batch, 1, 65536);
  phase.log_every = section.integer("log_every", phase.log_every, 1, 1'000'000);
  phase.heldout_sequences = section.integer("heldout_sequences", phase.heldout_sequences, 1, 65536);
  OptimizerOptions& options = phase.optimizer;
  options.learning_rate = section->number_or("learning_rate", options.learning_rate, 0, 1);
  options.beta1 = section->number_or("beta1", options.beta1, 0, 0.99999);
  options.beta2 = section->number_or("beta2", options.beta2, 0, 0.99999);
  options.weight_decay = section->number_or("weight_decay", options.weight_decay, 0, 10);
  options.clip = section->number_or("clip", options.clip, 0, 1e6);
  options.warm_up = section->integer_or("warm_up", options.warm_up, 0, 1'000'000);
  options.final_share = section->number_or("final_share", options.final_share, 0, 1);
}

LossWeights parse_loss_weights(const RecipeSection& section, LossWeights weights) {
  weights.text = static_cast<float>(section->number_or("weight_text", weights.text, 0, 1e6));
  weights.statement = static_cast<float>(section->number_or("weight_statement", weights.statement, 0, 1e6));
  weights.answer = static_cast<float>(section->number_or("weight_answer", weights.answer, 0, 1e6));
  return weights;
}

std::optional<LoraOptions> parse_adapter(const RecipeSection& parent, const std::string& file, const std::string& of) {
  if (!parent->has("adapter")) return std::nullopt;
  const nlohmann::json& raw = parent->raw().at("adapter");
  if (raw == false) return std::nullopt;
  const nlohmann::json holder = {{of + ".adapter", raw == true ? nlohmann::json::object() : raw}};
  const RecipeSection section(holder, of + ".adapter", file, {"rank", "alpha", "targets", "learning_rate"});
  LoraOptions adapter;
  adapter.rank = section.integer("rank", adapter.rank, 1, 4096);
  adapter.alpha = section->number_or("alpha", 2 * adapter.rank, 1e-3, 1e6);
  adapter.targets = section->texts("targets");
  adapter.learning_rate = section->number_or("learning_rate", adapter.learning_rate, 1e-8, 1);
  return adapter;
}

}  // namespace kvscope::engine
