#include "engine/core/policy/match_cache_size.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/core/policy/least_budget.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/policy_shared.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

MatchedPolicy refused(std::string why) { return {.policy = {}, .why_not = std::move(why), .note = {}}; }

/// Tokens that the last query sees beyond the budget.
int over_budget(const PolicySpec& spec, const RetentionPlan& plan, int n_answer) {
  if (plan.admission == Admission::least) return 1;  // its own: who leaves for it does so after it
  if (plan.has_fixed_budget() || plan.is_pooled() || n_answer <= 0) return 0;
  // What compresses keeps what has come since.
  const int interval = spec.has("interval") ? spec.count("interval") : 0;
  return interval > 0 ? (n_answer - 1) % interval + 1 : n_answer;
}

MatchedPolicy match_budget(PolicySpec spec, const std::string& title, const HeldTokens& held, int n_positions) {
  const int tokens = static_cast<int>(std::lround(held.tokens));
  const std::optional<int> least = least_budget(spec, n_positions);
  if (!least) return refused(title + " cannot run with these parameters at any budget.");
  spec.budget = {BudgetSpec::Kind::tokens, static_cast<double>(std::max(*least, tokens))};
  const RetentionPlan plan = policy_of(spec).plan(spec, spec.geometry(n_positions));
  if (!plan.is_pooled() && spec.has("pool") && spec.count("pool") > 0)
    return refused(title + " with a pool limit evicts when the pool is full: its budget has no effect.");
  const int over = over_budget(spec, plan, held.n_answer), budget = tokens - over;
  if (budget < *least)
    return refused(title + " needs a budget of at least " + counted(*least, "token") + ", and A held " +
                   std::to_string(tokens) + (over > 1 ? " with " + std::to_string(over) + " of the answer" : "") +
                   ": reduce sinks or window.");
  spec.budget->value = budget;
  MatchedPolicy matched{.policy = std::move(spec), .budget = budget, .why_not = {}, .note = {}};
  if (plan.is_pooled() && plan.cut_interval > 1) matched.note = "Between two cuts of the pool the heads hold fewer.";
  if (over > 1) matched.note = "This holds for an answer of A's length: all its newest tokens stay as well.";
  return matched;
}

}  // namespace

MatchedPolicy match_cache_size(const PolicySpec& spec, const HeldTokens& held, int n_positions) {
  const Policy& policy = policy_of(spec);
  const std::string title = method_name(spec);
  if (std::isnan(held.tokens) || held.tokens < 1) return refused("A did not record which tokens it kept.");
  if (spec.budget && policy.uses(spec, "budget")) return match_budget(spec, title, held, n_positions);
  if (policy.budget_tokens != nullptr && spec.has("window")) {
    PolicySpec matched = spec;
    const int tokens = static_cast<int>(std::lround(held.tokens)),
              beside = policy.budget_tokens(spec) - spec.count("window");
    if (tokens <= beside)
      return refused(title + " keeps " + counted(beside, "sink") + " and a window, and A held " +
                     counted(tokens, "token") + ": reduce sinks.");
    matched.values["window"] = tokens - beside;
    matched.unwritten.erase("window");
    return {.policy = std::move(matched), .budget = tokens, .why_not = {}, .note = {}};
  }
  if (policy.local_heads != nullptr)
    return refused("Global heads of " + title + " keep every token: its size follows from their number.");
  if (spec.has("threshold") || spec.has("admit"))
    return refused(title + " keeps what its " + (spec.has("threshold") ? "threshold" : "chance") +
                   " admits: its size follows from the text.");
  return refused(title + " evicts nothing: it has no size to set.");
}

}  // namespace kvscope
