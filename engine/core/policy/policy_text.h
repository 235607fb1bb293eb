#pragma once
// A policy as people write it: NAME:key=value,key=value. Policies declare their parameters once (policy_list.cpp);
// the command line, --help, the window's controls, traces and the docs table all read that declaration.

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/lifetime/running_top_k.h"

namespace kvscope {

enum class ParameterKind { tokens, real, count, choice };

/// How a window's control moves a parameter: what is reached without typing, and how finely.
struct ParameterSlider {
  double min, max;
  int decimals = 2;
  bool by_ratio = false;  // equal steps are equal factors
};

struct ParameterInfo {
  std::string_view name;  // "budget"
  ParameterKind kind;
  std::string_view unit;  // "tokens", "" for a pure number
  double default_value;
  double min, max;                                 // inclusive
  std::string_view definition;                     // one sentence
  std::span<const std::string_view> choices = {};  // of a choice, whose value is an index here
  std::string_view word = {};                      // what may stand instead of a number: its value is kWordValue
  std::optional<ParameterSlider> slider = {};      // none: slider_of() makes one of min and max
  bool may_be_share = false;  // of tokens: a value above 0 and below 1 is a share of the run's positions (read=25%)
  bool percent = false;       // 25% may stand for 0.25
  std::string_view instead_of = {};  // the parameter that is neither written nor read while this one says no word
  bool quiet = false;                // a policy's text leaves it out while it has its default
  bool rare = false;                 // few change it: a panel of controls may fold it away while it has its default

  /// For a run of n_positions, 0: not known. Whole numbers reach that far, by ratio where that is many.
  ParameterSlider slider_of(int n_positions) const;
};

/// The value of a parameter that says its word (decay=learned); below the minimum of every parameter that has one.
inline constexpr double kWordValue = 0;

struct PolicyInfo {
  std::string_view name;        // "kvpop"
  std::string_view title;       // "KVpop running top-k"
  std::string_view definition;  // the rule in one or two sentences, with the paper's equation
  std::span<const ParameterInfo> parameters;
  bool has_budget = false;                       // has budget | keep | compression
  bool needs_scorer = false;                     // reads the scores of a gate or scorer that is loaded with the model
  std::span<const std::string_view> gates = {};  // kinds of gate that it can read, see gate_file.h; empty: any
};

/// All policies of KVScope's own, in the order in which they are offered.
std::span<const PolicyInfo> policy_list();
/// Of those or, if the name has a dot, of those that an engine declares (declared_policy.h); nullptr if there is none of
/// that name.
const PolicyInfo* find_policy(std::string_view name);
struct PolicySpec;
/// That of the spec, whatever its name means by now.
const PolicyInfo* find_policy(const PolicySpec& spec);
struct DeclaredPolicy;

/// A budget as it was written: tokens, kept fraction or compression factor.
struct BudgetSpec {
  enum class Kind { tokens, keep, compression } kind = Kind::tokens;
  double value = 0;  // 512; 0.25; 4
  bool operator==(const BudgetSpec&) const = default;
};

/// A parsed policy: the name and every parameter's value, defaults filled in. Of the defaults a gate may have better ones: a
/// run's policy is the one after with_gates() (policy.h).
struct PolicySpec {
  std::string name = "full";
  std::map<std::string, double, std::less<>> values;  // all declared parameters but the budget
  std::optional<BudgetSpec> budget;                   // if the policy has one
  std::set<std::string, std::less<>> unwritten;       // parameters that parse() found no word of, the budget apart
  const DeclaredPolicy* declared = nullptr;  // the declaration it was parsed against; null: one of KVScope's own

  /// Parses "kvpop:budget=512,sinks=4". Throws Error (usage) that lists what exists for an unknown name or key, and
  /// names key, value and range for a bad value. A name with a dot is what `own` declares, that of the run which the text
  /// belongs to, or else what find_declared() has.
  static PolicySpec parse(std::string_view text, const DeclaredPolicy* own = nullptr);
  /// The canonical text, all parameters written out that mean anything (quiet ones if they have another value than their
  /// default); parse(to_string()) gives the same spec.
  std::string to_string() const;
  /// The same to be read: numbers have four significant digits, so that it may be another policy's text.
  std::string brief() const;
  /// What was written of it, so that what was not stays open to a gate's own numbers: text of a request, as to_string()
  /// is that of a run. The budget always stands there.
  std::string written() const;
  /// Whether another parameter stands in the place of this one (ParameterInfo::instead_of).
  bool is_replaced(std::string_view parameter) const;
  /// Gives those their defaults, as parse() would: they mean nothing.
  void forget_replaced();
  /// Whether a gate's number may take the place of the value: nobody wrote it, and nobody has set another one since.
  bool is_open(std::string_view parameter) const;
  /// The same with nothing left open to a gate's own numbers: what a run was decoded under, to be decoded under again.
  PolicySpec closed() const;
  /// Throws Error (usage), as parse() does, if a value is out of its parameter's range.
  void check() const;
  double value(std::string_view parameter) const;
  int count(std::string_view parameter) const { return static_cast<int>(value(parameter)); }
  bool has(std::string_view parameter) const;
  /// A parameter that may be a share, in tokens of a run: at least 1 unless it is 0.
  int tokens_of(std::string_view parameter, int n_positions) const;

  /// The budget in tokens for a run of `n_positions` (prompt + new tokens at most). 0 if the policy has none.
  int budget_tokens(int n_positions) const;
  /// Geometry for such a run. top_k = budget - sinks - window; throws Error if that is negative.
  RetentionGeometry geometry(int n_positions) const;
  /// By what they do: who wrote it does not matter.
  bool operator==(const PolicySpec& other) const {
    return name == other.name && declared == other.declared && values == other.values && budget == other.budget;
  }
};

/// A value of a parameter as people write it.
std::string parameter_value(const ParameterInfo& parameter, double value);
/// And as they read it: four significant digits.
std::string brief_value(const ParameterInfo& parameter, double value);
/// Throws Error (usage), as parse() does, for a value out of the parameter's range.
void check_value(std::string_view policy, const ParameterInfo& parameter, double value);

/// "512 tokens = 25 % of 2048, 4x": a budget in three units.
std::string describe_budget(int budget_tokens, int n_positions);

/// Lifetimes of one head under `spec` from recorded raw scores: the one place that maps a policy's name to its rule
/// outside the engine. Used by what-if and by tests. `scores` may be empty for policies without a scorer. Throws Error
/// for a policy that decides by attention: no scores say what it does. Parameters as in running_top_k().
void policy_lifetimes(const PolicySpec& spec, int n_positions, std::span<const float> scores, std::int32_t n_queries,
                      std::span<std::int32_t> evict_at, std::vector<Contest>* contests = nullptr);
/// The same for one head of a model, for policies that treat heads apart.
struct HeadIndex;
void policy_lifetimes(const PolicySpec& spec, int n_positions, const HeadIndex& head, std::span<const float> scores,
                      std::int32_t n_queries, std::span<std::int32_t> evict_at,
                      std::vector<Contest>* contests = nullptr);

}  // namespace kvscope
