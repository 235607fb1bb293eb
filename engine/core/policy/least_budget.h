#pragma once
// How small a policy's budget can be.

#include <optional>
#include <string>

#include "engine/core/policy/policy_text.h"

namespace kvscope {

/// The least budget, in tokens of a head, that the policy's sinks, window and protected tokens leave in a run of
/// `n_positions`. Nothing for a policy without a budget, or one that cannot be had with any.
std::optional<int> least_budget(const PolicySpec& spec, int n_positions);

/// What a budget that was written as a share comes to, where that is less than the least: 25 % of 125 tokens are 31, of
/// which 4 sinks and a window of 64 leave nothing.
struct RaisedBudget {
  BudgetSpec asked;           // a share or a factor
  int wanted, least;          // tokens
  bool has_interval = false;  // of a pool, which keeps places free until its next cut
};
/// Nothing for budgets in tokens: who writes those means them.
std::optional<RaisedBudget> raised_budget(const PolicySpec& spec, int n_positions);
/// The policy with the budget that it runs with: the least where a share was raised to it, as it is otherwise.
PolicySpec with_least_budget(PolicySpec spec, int n_positions);
/// "sinks and window", or "sinks, window and interval" of a pool: what takes the least budget.
std::string what_takes_least(bool has_interval);
/// "25 % of 125 tokens = 31, raised to 68: sinks and window take that many".
std::string describe_raised(const RaisedBudget& raised, int n_positions);

}  // namespace kvscope
