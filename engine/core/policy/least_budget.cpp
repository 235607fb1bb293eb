#include "engine/core/policy/least_budget.h"

#include "engine/core/policy/policy_shared.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr int kMost = 1 << 24;  // as the parameter has it

bool is_enough(PolicySpec spec, int tokens, int n_positions) {
  spec.budget = {BudgetSpec::Kind::tokens, static_cast<double>(tokens)};
  try {
    spec.geometry(n_positions);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<int> least_budget(const PolicySpec& spec, int n_positions) {
  if (!spec.budget || !is_enough(spec, kMost, n_positions)) return std::nullopt;
  int too_few = 0, enough = kMost;
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    (is_enough(spec, middle, n_positions) ? enough : too_few) = middle;
  }
  return enough;
}

std::optional<RaisedBudget> raised_budget(const PolicySpec& spec, int n_positions) {
  if (!spec.budget || spec.budget->kind == BudgetSpec::Kind::tokens || n_positions <= 0) return std::nullopt;
  const int wanted = spec.budget_tokens(n_positions);
  if (wanted > 0 && is_enough(spec, wanted, n_positions)) return std::nullopt;
  const std::optional<int> least = least_budget(spec, n_positions);
  if (!least) return std::nullopt;
  return RaisedBudget{*spec.budget, wanted, *least, pool_interval(spec) > 0};
}

PolicySpec with_least_budget(PolicySpec spec, int n_positions) {
  if (const auto raised = raised_budget(spec, n_positions))
    spec.budget = {BudgetSpec::Kind::tokens, static_cast<double>(raised->least)};
  return spec;
}

std::string what_takes_least(bool has_interval) {
  return has_interval ? "sinks, window and interval" : "sinks and window";
}

std::string describe_raised(const RaisedBudget& raised, int n_positions) {
  const bool share = raised.asked.kind == BudgetSpec::Kind::keep;
  const std::string asked = share ? number_text(100 * raised.asked.value, 4) + " % of "
                                  : number_text(raised.asked.value, 4) + "x compression of ";
  return asked + std::to_string(n_positions) + " = " + counted(raised.wanted, "token") + ", raised to the minimum of " +
         std::to_string(raised.least) + " (" + (raised.has_interval ? "sinks + window + interval" : "sinks + window") +
         ")";
}

}  // namespace kvscope
