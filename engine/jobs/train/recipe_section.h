#pragma once
// What the parsers of a recipe's sections share. Private to recipe*.cpp.

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "engine/core/support/json_file.h"
#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

/// Throws Error (bad input).
[[noreturn]] void recipe_error(const std::string& file, const std::string& where, const std::string& found,
                               const std::string& expected);

/// One object of the recipe. A key that nothing reads is a misspelling: named, not ignored.
class RecipeSection {
 public:
  RecipeSection(const nlohmann::json& parent, const std::string& key, const std::string& file,
                const std::set<std::string>& known);
  const JsonObject* operator->() const { return &object_; }
  int integer(const char* key, std::int64_t fallback, std::int64_t min, std::int64_t max) const {
    return static_cast<int>(object_.integer_or(key, fallback, min, max));
  }

 private:
  nlohmann::json json_;
  JsonObject object_;
};

/// The keys of a phase: its own, and those of parse_phase().
std::set<std::string> phase_keys(std::set<std::string> own);
PhaseLength parse_length(const RecipeSection& section);
void parse_phase(const RecipeSection& section, PhaseOptions& phase);
/// Keys weight_text, weight_statement, weight_answer over those that are there.
LossWeights parse_loss_weights(const RecipeSection& section, LossWeights weights);
/// The key "adapter" of section `of`: an object, or true for the usual one.
std::optional<LoraOptions> parse_adapter(const RecipeSection& parent, const std::string& file, const std::string& of);

/// The sections "scorer" and "gate"; `length`: positions of a sequence.
ScorerOptions parse_scorer(const nlohmann::json& json, const std::string& file, int length);
GateOptions parse_gate(const nlohmann::json& json, const std::string& file, int length);

}  // namespace kvscope::engine
