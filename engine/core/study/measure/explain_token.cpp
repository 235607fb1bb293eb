// "Why was this token evicted?" in one or two sentences.
#include <algorithm>
#include <cmath>
#include <string>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

/// Token 407 "7"; bytes that cannot be shown are escaped.
std::string token_name(const RunRecord& run, std::int32_t t) {
  std::string name = "token " + std::to_string(t);
  if (t < 0 || static_cast<std::size_t>(t) >= run.pieces.size()) return name;
  std::string piece;
  for (const char c : run.pieces[t]) {
    if (c == '\n') {
      piece += "\\n";
    } else if (c == '\t') {
      piece += "\\t";
    } else if (c == '"') {
      piece += "\\\"";
    } else {
      piece += c;
    }
  }
  return name + " \"" + escape_for_terminal(piece, 60) + "\"";
}

/// One question: a token of a head at a query.
struct Question {
  const RunRecord& run;
  int layer, kv_head;
  std::int32_t t, q;
  RetentionGeometry geometry;
  std::int32_t evict_at;

  std::string head() const { return "layer " + std::to_string(layer) + " head " + std::to_string(kv_head); }
  std::string name() const {
    std::string text = token_name(run, t);
    text[0] = 'T';
    return text;
  }
  std::int32_t out() const { return t + geometry.window; }
  bool is_local() const { return run.is_local(layer, kv_head); }

  /// The contest of this head at query `at`, nullptr if none was recorded.
  const Contest* contest_at(std::int32_t at) const {
    for (const Contest& c : run.contests) {
      if (c.q == at && c.layer == layer && c.kv_head == kv_head) return &c;
    }
    return nullptr;
  }
  /// NaN if none was recorded.
  float score() const {
    if (run.scores.empty()) return NAN;
    const std::vector<float>& row = run.scores.row(layer, kv_head);
    return static_cast<std::size_t>(t) < row.size() ? row[t] : NAN;
  }
};

/// "an oracle with the same 416 slots", or how else its capacity came about.
std::string oracle_name(const RunRecord& run, int capacity, bool by_quarter) {
  if (by_quarter) return "an oracle that keeps 25 % of the run's tokens (this head keeps nothing)";
  if (run.oracle.budget) return "the oracle (" + run.oracle.title() + ")";
  const std::string slots = capacity == 1 ? "one slot" : "the same " + counted(capacity, "slot");
  return "an oracle with " + slots + (run.oracle.pooled ? " in all heads" : "");
}

std::string verdict_on_evicted(const Question& question) {
  const RunRecord& run = question.run;
  const VerdictOfEviction found = eviction_verdict(run, question.layer, question.kv_head, question.t);
  if (found.verdict == EvictionVerdict::unknown) {
    if (question.evict_at < question.out()) return " It was still in the window, so there is no verdict.";
    if (question.evict_at >= Oracle(run).n_queries()) return " No verdict: the oracle has not seen enough queries.";
    return " No verdict: at query " + std::to_string(question.evict_at) + " the oracle had no slot to fill.";
  }
  const OracleCounts counts = Oracle(run).counts(question.layer, question.kv_head, question.evict_at);
  const std::string name = oracle_name(run, counts.pool, found.by_quarter);
  return found.verdict == EvictionVerdict::wrong ? " Wrong: " + name + " would have kept it."
                                                 : " Correct: " + name + " would have evicted it too.";
}

std::string verdict_on_kept(const Question& question) {
  const Oracle oracle(question.run);
  const std::int32_t q = std::min(question.q, oracle.n_queries() - 1);
  if (question.t > q - oracle.window()) return " No verdict: the oracle has not seen enough queries.";
  const OracleCounts counts = oracle.counts(question.layer, question.kv_head, q);
  if (!counts.chosen) return " No choice was needed at query " + std::to_string(q) + ", so there is no verdict.";
  const bool keeps = oracle.keeps(question.layer, question.kv_head, q)[static_cast<std::size_t>(question.t)] != 0;
  const std::string name = "at query " + std::to_string(q) + " " + oracle_name(question.run, counts.pool, false);
  return keeps ? " Correct: " + name + " keeps it too." : " Wrong: " + name + " does not keep it.";
}

/// The verdict on a token that was evicted, or that is kept at q.
std::string oracle_verdict(const Question& question, bool evicted) {
  if (question.run.is_local_by_model(question.layer, question.kv_head)) return "";  // no policy decided
  if (!Oracle(question.run).is_known()) return " This run has no oracle, so there is no verdict.";
  return evicted ? verdict_on_evicted(question) : verdict_on_kept(question);
}

/// The policy's own reason. contest: of the head, when the token left the cache or, of a kept one, the window.
std::string reason(const Question& question, bool evicted, const Contest* contest) {
  const RunRecord& run = question.run;
  if (run.is_local_by_model(question.layer, question.kv_head))
    return ": this layer of the model attends only to its newest " + counted(question.geometry.window, "token") +
           ", under every policy.";
  const RetentionPlan plan = run.plan(question.layer, question.kv_head);
  if (!evicted && question.q < run.prompt_len && prompt_was_dense(run)) {
    return ": the prompt is dense, and eviction starts at query " + std::to_string(run.prompt_len) + ".";
  }
  const TokenQuestion asked{.spec = run.policy,
                            .geometry = question.geometry,
                            .plan = plan,
                            .t = question.t,
                            .evict_at = question.evict_at,
                            .evicted = evicted,
                            .local = question.is_local(),
                            .score = question.score(),
                            .contest = contest,
                            .has_contests = !run.contests.empty(),
                            .name_of = [&run](std::int32_t t) { return token_name(run, t); }};
  return policy_of(run.policy).explain(asked);
}

std::string explain_evicted(const Question& question) {
  return question.name() + " was evicted from " + question.head() + " at query " + std::to_string(question.evict_at) +
         reason(question, true, question.contest_at(question.evict_at)) + oracle_verdict(question, true);
}

std::string explain_kept(const Question& question) {
  std::string text = question.name() + " is kept by " + question.head() + " at query " + std::to_string(question.q);
  text += reason(question, false, question.contest_at(question.out()));
  if (question.evict_at < kUndecided) text += " It is evicted at query " + std::to_string(question.evict_at) + ".";
  return text + oracle_verdict(question, false);
}

std::string explain_window(const Question& question) {
  std::string text = question.name() + " is in the window of query " + std::to_string(question.q) + " in " +
                     question.head() + ": the newest " + counted(question.geometry.window, "token") +
                     " always stay. It leaves the window at query " + std::to_string(question.out());
  if (question.run.status != RunStatus::running && question.evict_at == kUndecided) {
    return text + ", after the end of the run, so no decision was made.";
  }
  if (question.evict_at == question.out()) return text + " and is evicted then.";
  return text + (question.evict_at == kUndecided ? "." : " and stays in the cache.");
}

/// The sentences speak of one policy, that of the beginning.
std::string change_note(const RunRecord& run, std::int32_t q) {
  const auto last =
      std::find_if(run.changes.rbegin(), run.changes.rend(), [&](const PolicyChange& change) { return change.q <= q; });
  if (last == run.changes.rend()) return {};
  return " At query " + std::to_string(last->q) + " the policy changed to " + last->policy.brief() +
         ". This explanation is for the policy that the run began with.";
}

}  // namespace

std::string eviction_reason(const RunRecord& run, int layer, int kv_head, std::int32_t t, const Contest* contest) {
  const std::int32_t evict_at = run.evict_at.row(layer, kv_head).at(static_cast<std::size_t>(t));
  return reason({run, layer, kv_head, t, evict_at, run.geometry(layer, kv_head), evict_at}, true, contest);
}

std::string explain_token(const RunRecord& run, int layer, int kv_head, std::int32_t t, std::int32_t q) {
  if (t < 0 || t >= run.n_tokens() || run.evict_at.empty()) {
    return "There is no token " + std::to_string(t) + ": the run has " + std::to_string(run.n_tokens()) + " tokens.";
  }
  if (layer < 0 || layer >= run.evict_at.n_layers() || kv_head < 0 || kv_head >= run.evict_at.n_kv_heads()) {
    return "There is no layer " + std::to_string(layer) + " head " + std::to_string(kv_head) + ".";
  }
  const std::vector<std::int32_t>& row = run.evict_at.row(layer, kv_head);
  const std::int32_t evict_at = static_cast<std::size_t>(t) < row.size() ? row[t] : kUndecided;
  const RetentionGeometry geometry = run.geometry(layer, kv_head);
  const Question question{run, layer, kv_head, t, q, geometry, evict_at};
  switch (token_state(run, geometry, q, t, evict_at)) {
    case TokenState::undecided:
      return question.name() + " is undecided in " + question.head() + ": query " + std::to_string(t) +
             " has not run yet.";
    case TokenState::future:
      return question.name() + " comes after query " + std::to_string(q) + ".";
    case TokenState::sink:
      return question.name() + " is a sink: " + question.head() + " never evicts the first " +
             counted(question.geometry.n_sink, "token") + ".";
    case TokenState::window:
      return explain_window(question) + change_note(run, q);
    case TokenState::kept:
    case TokenState::unread:
      return explain_kept(question) + change_note(run, q);
    case TokenState::evicted:
      return explain_evicted(question) + change_note(run, q);
  }
  return {};
}

}  // namespace kvscope
