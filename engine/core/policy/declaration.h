#pragma once
// What an engine declares of a policy: enough to offer it, to write its runs down and to say in the method's own words
// why a token left. docs/protocol.md has the fields; declared_policy.h makes a Policy of it.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/core/policy/policy_text.h"

namespace kvscope {

struct DeclaredParameter {
  std::string name;
  ParameterKind kind = ParameterKind::real;
  std::string unit;
  double default_value = 0, min = 0, max = 0;  // of a choice: indices
  std::string definition;
  std::vector<std::string> choices;
  bool share = false;  // of tokens: a share of the run may stand for the number
  bool operator==(const DeclaredParameter&) const = default;
};

struct Declaration {
  /// Whether recorded scores and a rule of KVScope's give every eviction.
  enum class Rule : std::uint8_t { none, top_k, threshold };
  std::string name;           // "hf.snapkv": a prefix and a dot, which no policy of KVScope's has
  std::string title;          // "SnapKV (kvpress)"
  std::string definition;     // what it keeps and evicts
  std::string evicted, kept;  // why, in the method's words; they end a sentence about one token. Empty: it gives none
  bool budget = false;
  Rule rule = Rule::none;
  bool dense_prompt = true;  // the prompt is read in full, and what leaves does so at its end
  std::string revision;      // of the method's code: another one means another method under this name. Empty: not known
  std::vector<DeclaredParameter> parameters;
  bool operator==(const Declaration&) const = default;
};

/// Whether a policy's name is one that an engine declares.
inline bool is_declared_name(std::string_view policy) { return policy.find('.') != std::string_view::npos; }

/// Throws Error that names the field, what it has and what is expected. Fields that are not known are passed over: later
/// versions may have more. `place`: where the object is, for the message ("policies[3]").
Declaration declaration_of_json(const nlohmann::json& object, const std::string& place = "");
/// What declaration_of_json() reads.
nlohmann::json declaration_json(const Declaration& declaration);

}  // namespace kvscope
