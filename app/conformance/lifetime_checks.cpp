// Lifetimes against the rule that is declared: KVScope's reference computes them again from the recorded scores.

#include <algorithm>
#include <array>
#include <set>

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"
#include "app/conformance/rule_cases.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/study/measure/what_if.h"

namespace kvscope::app::conformance {
namespace {

using nlohmann::json;

constexpr int kRuleNew = 32;
constexpr int kMostOtherPolicies = 4;  // of those without a rule: each costs a run

std::int64_t count_evictions(const RunRecord& run) {
  std::int64_t n = 0;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head)
      n += std::ranges::count_if(run.evict_at.row(layer, head), [&](auto at) { return at < run.queries(); });
  }
  return n;
}

/// (query, layer, head, newcomer, evicted) of every contest.
std::set<std::array<std::int32_t, 5>> decisions(const std::vector<Contest>& contests) {
  std::set<std::array<std::int32_t, 5>> out;
  for (const Contest& c : contests) out.insert({c.q, c.layer, c.kv_head, c.newcomer, c.evicted});
  return out;
}

/// Contests are optional. Those that there are must be those of the rule.
void require_contests(const RunRecord& run, const RunRecord& wanted) {
  const auto by_rule = decisions(wanted.contests);
  for (const auto& [q, layer, head, newcomer, evicted] : decisions(run.contests)) {
    require(by_rule.contains({q, layer, head, newcomer, evicted}),
            "contests: at query " + std::to_string(q) + " in layer " + std::to_string(layer) + " head " +
                std::to_string(head) + ", token " + std::to_string(evicted) + " leaves for newcomer " +
                std::to_string(newcomer) + "; the recorded scores and the rule do not give that");
  }
}

std::string by_rule(Subject& subject, const RuleCase& one) {
  const bool is_own = one.policy.declared == nullptr;
  if (one.needs_scores && is_own && subject.gates.scorers.empty())
    throw NotServed("No gate is loaded whose scores " + one.policy.name + " could read (--gate).");
  RecordedRun found = record(subject, long_request(subject, one.policy, kRuleNew));
  if (one.finds_threshold) found = record(subject, long_request(subject, with_middle_threshold(found), kRuleNew));
  const RunRecord wanted = what_if(found.run, found.run.policy);
  require_same_lifetimes(found.run, wanted, "by the recorded scores and the rule");
  require_contests(found.run, wanted);
  const std::int64_t n = count_evictions(found.run);
  require(n == count_evictions(wanted),
          "lifetimes: " + std::to_string(n) + " evictions; the rule gives " + std::to_string(count_evictions(wanted)));
  return found.run.policy.to_string() + ": " + std::to_string(n) + " evictions, all by the rule";
}

/// Tokens that a head holds on average over global heads, after the query.
double mean_held(const RecordedRun& found, int query) {
  double held = 0;
  int n_heads = 0;
  for (int layer = 0; layer < found.run.model.n_layers; ++layer) {
    for (int head = 0; head < found.run.model.n_kv_heads; ++head) {
      if (found.run.is_local_by_model(layer, head)) continue;
      ++n_heads;
      for (int t = 0; t <= query; ++t) held += found.is_alive(layer, head, t, query) ? 1 : 0;
    }
  }
  return n_heads > 0 ? held / n_heads : 0;
}

/// A policy without a rule: what its declaration says all the same.
std::string by_declaration(Subject& subject, const DeclaredPolicy& policy) {
  const PolicySpec spec = with_values(policy.policy.info, {{"budget", 40.0}, {"sinks", 4.0}, {"window", 16.0}});
  const RecordedRun found = record(subject, subject.request(spec, 80, 8));
  for (int layer = 0; layer < found.run.model.n_layers; ++layer) {
    for (int head = 0; head < found.run.model.n_kv_heads; ++head) {
      if (!policy.declaration.dense_prompt || found.run.is_local_by_model(layer, head)) continue;
      for (const std::int32_t at : found.run.evict_at.row(layer, head))
        require(at >= found.run.prompt_len, "lifetimes: a token is evicted at query " + std::to_string(at) +
                                                ", within the prompt; the declaration has prompt: dense");
    }
  }
  if (policy.declaration.budget) {
    const int budget = found.run.geometry().budget();
    const double held = mean_held(found, found.run.queries() - 1);
    // A method may evict after the query that is one too many.
    require(held <= budget + 1, "lifetimes: a head holds " + std::to_string(held) +
                                    " tokens on average; the budget is " + std::to_string(budget));
  }
  return found.run.policy.to_string() + ": " + std::to_string(count_evictions(found.run)) + " evictions";
}

/// A smaller budget from the middle of a run on.
std::string change_in_mid_run(Subject& subject) {
  subject.need("policy");
  const PolicySpec policy = evicting_policy(subject);
  if (!find_policy(policy)->has_budget) throw NotServed("No policy has a budget to change.");
  const RunRequest request = long_request(subject, policy, kRuleNew);
  const int before = policy.geometry(subject.model.max_positions).budget(), after = before - 8;
  PolicySpec smaller = policy;
  smaller.budget = {BudgetSpec::Kind::tokens, static_cast<double>(after)};
  int n_steps = 0;
  const RecordedRun found = record(subject, request, [&](const json& event) {
    if (event.value("type", "") == "step" && ++n_steps == 3)
      subject.talk.steer(protocol::PolicyRequest{subject.talk.current(), smaller.written()});
  });
  require(found.run.changes.size() == 1, "a request policy in mid-run: " + std::to_string(found.run.changes.size()) +
                                             " events policy; expected one" +
                                             (found.log.empty() ? "" : ", but the log has: " + found.log.back()));
  const PolicyChange& change = found.run.changes.front();
  require(change.policy.budget == smaller.budget,
          "policy: the event has " + change.policy.to_string() + "; the request has " + smaller.to_string());
  for (int q = change.q; q < found.run.queries(); ++q) {
    const double held = mean_held(found, q);
    require(held <= after, "policy: a head holds " + std::to_string(held) + " tokens on average at query " +
                               std::to_string(q) + "; the budget is " + std::to_string(after) + " from query " +
                               std::to_string(change.q) + " on");
  }
  return "a budget of " + std::to_string(after) + " instead of " + std::to_string(before) + " tokens from query " +
         std::to_string(change.q) + " on";
}

}  // namespace

void check_lifetimes(Checks& checks, Subject& subject) {
  if (!subject.does("run")) return;
  for (const RuleCase& one : rule_cases(subject))
    checks.check("lifetimes: " + one.policy.name, [&] { return by_rule(subject, one); });
  int n_others = 0;
  for (const DeclaredPolicy* policy : subject.offer.policies) {
    if (policy->declaration.rule != Declaration::Rule::none || ++n_others > kMostOtherPolicies) continue;
    checks.check("lifetimes: " + policy->declaration.name, [&] { return by_declaration(subject, *policy); });
  }
  checks.check("policy: a change in mid-run", [&] { return change_in_mid_run(subject); });
}

}  // namespace kvscope::app::conformance
