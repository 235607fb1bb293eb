#pragma once
// What one policy is to the rest of engine/core: its declaration and its rule. One file a policy, listed in
// policy_list.cpp.

#include <memory>

#include "engine/core/lifetime/lifetime_rule.h"
#include "engine/core/policy/policy_spec.h"

namespace kvscope {

/// The largest number of tokens that a parameter may name; 16 Mi positions.
inline constexpr double kMaxTokens = 1 << 24;
/// The window of policies that name none (full): the window of the others by default, so that density, oracle and
/// previews of a full run look at the same tokens.
inline constexpr int kDefaultWindow = 64;
inline constexpr int kDefaultSinks = 4;

struct Policy {
  PolicyInfo info;
  /// Geometry of a run of n_positions; may throw Error.
  RetentionGeometry (*geometry)(const PolicySpec& spec, int n_positions);
  /// The rule of one head; reads scores if info.needs_scorer.
  std::unique_ptr<LifetimeRule> (*rule)(const PolicySpec& spec, const RetentionGeometry& geometry);
};

const Policy& full_policy();       // full.cpp
const Policy& streaming_policy();  // streaming.cpp
const Policy& kvpop_policy();      // kvpop.cpp
const Policy& threshold_policy();  // threshold.cpp

/// Like find_policy(), with the rule; throws Error (usage) listing the policies if there is none of that name.
const Policy& policy_of(const PolicySpec& spec);

// Parameters that several policies share.
inline constexpr ParameterInfo kSinksParameter{"sinks",
                                               ParameterKind::tokens,
                                               "tokens",
                                               kDefaultSinks,
                                               0,
                                               kMaxTokens,
                                               "First tokens of the text that always stay."};
inline constexpr ParameterInfo kWindowParameter{
    "window",
    ParameterKind::tokens,
    "tokens",
    kDefaultWindow,
    1,
    kMaxTokens,
    "Newest tokens, the query's own included, that always stay: query q sees t > q - window."};

}  // namespace kvscope
