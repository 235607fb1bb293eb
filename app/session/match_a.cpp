#include "app/session/match_a.h"

#include <algorithm>
#include <cmath>

#include "app/session/session.h"
#include "app/support/usage.h"
#include "engine/core/policy/explanation.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

/// Why there is no size to match, before any policy is looked at.
std::string why_no_size(const Session& session) {
  const RunEntry* a = session.runs().a();
  if (a == nullptr || a->run->n_tokens() == 0) return "There is no run A.";
  if (a->run->status == RunStatus::running) return "A is in progress: its cache still grows.";
  if (!session.next_run().budgets().empty()) return "Budgets of heads are given: use one budget first.";
  return {};
}

MatchedPolicy matched(const Session& session, double tokens) {
  const RunRecord& a = *session.runs().a()->run;
  return match_cache_size(session.policy().in_effect(),
                          {.tokens = tokens, .n_answer = std::max(0, a.queries() - a.prompt_len)},
                          std::max(1, session.policy().n_positions()));
}

/// The policy as it was written with the size of the other one.
PolicySpec with_size(PolicySpec asked, const PolicySpec& of) {
  if (of.budget) {
    asked.budget = of.budget;
  } else {
    asked.values["window"] = of.value("window");
    asked.unwritten.erase("window");
  }
  return asked;
}

const RunSummary* known(Session& session) { return session.summaries().of(*session.runs().a()); }

}  // namespace

std::string why_no_match(Session& session) {
  if (std::string why = why_no_size(session); !why.empty()) return why;
  const RunSummary* summary = known(session);
  return matched(session, summary != nullptr ? summary->measures.cached : session.runs().a()->run->n_tokens()).why_not;
}

bool matches_a(Session& session) {
  if (!why_no_size(session).empty()) return false;
  const RunSummary* summary = known(session);
  if (summary == nullptr) return false;
  const MatchedPolicy found = matched(session, summary->measures.cached);
  const PolicySpec now = session.policy().in_effect();
  return found.policy && found.policy->values == now.values &&
         found.policy->budget_tokens(1) == now.budget_tokens(std::max(1, session.policy().n_positions()));
}

std::string match_a(Session& session) {
  std::string why = why_no_size(session);
  if (!why.empty()) usage_error("policy", why);
  const RunRecord& a = *session.runs().a()->run;
  const double tokens = tokens_in_cache(a, a.queries() - 1);
  const MatchedPolicy found = matched(session, tokens);
  if (!found.policy) usage_error("policy", found.why_not);
  session.policy().set(with_size(session.parameters().policy, *found.policy));
  return "budget " + counted(found.budget, "token") + ": A held " + number_text(std::round(tokens * 10) / 10) +
         (found.note.empty() ? "" : ". " + found.note);
}

}  // namespace kvscope::app
