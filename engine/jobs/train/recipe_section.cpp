#include "engine/jobs/train/recipe_section.h"

#include <algorithm>

#include "engine/core/support/error.h"

namespace kvscope::engine {

void recipe_error(const std::string& file, const std::string& where, const std::string& found,
                  const std::string& expected) {
  throw Error({.file = file, .where = where, .found = found, .expected = expected});
}

void RecipeSection::check_keys(const std::set<std::string>& known, const std::string& key,
                               const std::string& file) const {
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

std::size_t RecipeSection::word(const char* name, const OneOf& of, const std::string& file,
                                const std::string& key) const {
  const std::vector<std::string>& words = of.words;
  const std::string given = object_.text(name);
  const auto found = std::ranges::find(words, given);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  std::string list = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) list += (i + 1 < words.size() ? ", " : " or ") + words[i];
  recipe_error(file, key + "." + name, given, list);
}

PhaseLength parse_length(const RecipeSection& section) {
  return {section->integer("steps", 0, 100'000'000), section->number_or("max_seconds", 0, 0, 1e7)};
}

std::optional<LoraOptions> parse_adapter(const RecipeSection& parent, const std::string& file, const std::string& of) {
  if (!parent->has("adapter")) return std::nullopt;
  const nlohmann::json& raw = parent->raw().at("adapter");
  if (raw == false) return std::nullopt;
  const nlohmann::json holder = {{of + ".adapter", raw == true ? nlohmann::json::object() : raw}};
  LoraOptions adapter;
  const RecipeSection section(holder, of + ".adapter", file, adapter, {"alpha", "targets"});
  adapter.alpha = section->number_or("alpha", 2 * adapter.rank, 1e-3, 1e6);
  adapter.targets = section->texts("targets");
  return adapter;
}

std::optional<AllWeightsOptions> parse_all_weights(const RecipeSection& parent, const std::string& file,
                                                   const std::string& of, double rate) {
  if (!parent->has("all_weights")) return std::nullopt;
  const nlohmann::json& raw = parent->raw().at("all_weights");
  if (raw == false) return std::nullopt;
  const nlohmann::json holder = {{of + ".all_weights", raw == true ? nlohmann::json::object() : raw}};
  AllWeightsOptions options{rate};
  const RecipeSection section(holder, of + ".all_weights", file, options);
  if (parse_adapter(parent, file, of)) {
    recipe_error(file, of + ".all_weights", "an adapter as well",
                 "only one of them: an adapter leaves the weights unchanged");
  }
  return options;
}

}  // namespace kvscope::engine
