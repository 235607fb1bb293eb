#pragma once
// What the parsers of a recipe's sections share. Private to recipe*.cpp.

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "engine/core/support/json_file.h"
#include "engine/jobs/train/recipe_fields.h"

namespace kvscope::engine {

/// Throws Error (bad input).
[[noreturn]] void recipe_error(const std::string& file, const std::string& where, const std::string& found,
                               const std::string& expected);

/// One object of the recipe. A key that nothing reads is a misspelling: named, not ignored.
class RecipeSection {
 public:
  /// `more`: keys of the section that are not fields of `value` (recipe_fields.h), which are read here.
  template <typename T>
  RecipeSection(const nlohmann::json& parent, const std::string& key, const std::string& file, T& value,
                std::set<std::string> more = {})
      : json_(parent.contains(key) ? parent.at(key) : nlohmann::json::object()), object_(json_, file, key) {
    visit_fields(value, [&](const char* name, const auto&, const auto&) { more.insert(name); });
    check_keys(more, key, file);
    visit_fields(value, [&](const char* name, auto& member, const auto& range) {
      if (object_.has(name)) read(name, member, range, file, key);
    });
  }
  const JsonObject* operator->() const { return &object_; }
  int integer(const char* key, std::int64_t fallback, std::int64_t min, std::int64_t max) const {
    return static_cast<int>(object_.integer_or(key, fallback, min, max));
  }

 private:
  void check_keys(const std::set<std::string>& known, const std::string& key, const std::string& file) const;
  std::size_t word(const char* name, const OneOf& words, const std::string& file, const std::string& key) const;

  template <typename T, typename Range>
  void read(const char* name, T& member, const Range& range, const std::string& file, const std::string& key) const {
    if constexpr (std::is_same_v<Range, OneOf>) {
      member = static_cast<T>(word(name, range, file, key));
    } else if constexpr (std::is_same_v<T, bool>) {
      member = object_.boolean_or(name, member);
    } else if constexpr (std::is_integral_v<T>) {
      member = static_cast<T>(
          object_.integer(name, static_cast<std::int64_t>(range.min), static_cast<std::int64_t>(range.max)));
    } else if constexpr (std::is_floating_point_v<T>) {
      member = static_cast<T>(object_.number(name, range.min, range.max));
    } else {
      read(name, member.emplace(), range, file, key);
    }
  }

  nlohmann::json json_;
  JsonObject object_;
};

/// Keys "steps", which must be there, and "max_seconds".
PhaseLength parse_length(const RecipeSection& section);
/// The key "adapter" of section `of`: an object, or true for the usual one.
std::optional<LoraOptions> parse_adapter(const RecipeSection& parent, const std::string& file, const std::string& of);

/// The key "all_weights" of section `of`: an object, or true for the phase's `rate`.
std::optional<AllWeightsOptions> parse_all_weights(const RecipeSection& parent, const std::string& file,
                                                   const std::string& of, double rate);

/// The sections "scorer" and "gate"; `length`: positions of a sequence.
ScorerOptions parse_scorer(const nlohmann::json& json, const std::string& file, int length);
GateOptions parse_gate(const nlohmann::json& json, const std::string& file, int length);

/// The section "gate" of method kvzap.
KvzapOptions parse_kvzap(const nlohmann::json& json, const std::string& file);

/// The section "probe", of the recipe with all its other sections; nothing where it is false.
std::optional<ProbeOptions> parse_probe(const nlohmann::json& json, const std::string& file, const Recipe& recipe);

}  // namespace kvscope::engine
