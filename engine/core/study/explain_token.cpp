// "Why was this token evicted?" in one or two sentences.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "engine/core/policy/policy.h"
#include "engine/core/study/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

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

/// "1 sink", "4 sinks".
std::string counted(int n, const char* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }
std::string counted_queries(int n) { return std::to_string(n) + (n == 1 ? " query" : " queries"); }

/// Two scores with as many decimals as it takes to see which is the larger.
struct ScorePair {
  std::string a, b, margin;
  ScorePair(double first, double second) {
    const double difference = std::abs(first - second);
    int digits = 2;
    if (difference > 0 && std::isfinite(difference)) {
      digits = std::clamp(static_cast<int>(std::ceil(1 - std::log10(difference))), 2, 8);
    }
    a = fixed_text(first, digits);
    b = fixed_text(second, digits);
    margin = fixed_text(first == second ? 0 : difference, digits);  // -inf against -inf is a tie too
  }
};

/// One question: a token of a head at a query.
struct Question {
  const RunRecord& run;
  int layer, kv_head;
  std::int32_t t, q;
  RetentionGeometry geometry;
  RetentionPlan plan;
  std::int32_t evict_at;

  std::string head() const { return "layer " + std::to_string(layer) + " head " + std::to_string(kv_head); }
  std::string name() const {
    std::string text = token_name(run, t);
    text[0] = 'T';
    return text;
  }
  std::int32_t out() const { return t + geometry.window; }

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

/// What the oracle says of a token that left at `evict_at`, or that is kept at q.
std::string oracle_verdict(const Question& question, bool evicted) {
  const RunRecord& run = question.run;
  if (run.oracle_evict_at.empty()) return " The oracle is not known for this run.";
  const std::vector<std::int32_t>& row = run.oracle_evict_at.row(question.layer, question.kv_head);
  const std::int32_t t = question.t;
  const std::int32_t oracle = static_cast<std::size_t>(t) < row.size() ? row[t] : kUndecided;
  if (oracle == kUndecided) return " The oracle has not seen enough to judge.";
  const std::string token = "token " + std::to_string(t);
  const std::string until = oracle == kNever ? "to the end" : "until " + std::to_string(oracle);
  if (evicted) {
    if (oracle > question.evict_at) return " The oracle would have kept " + token + " " + until + ": wrong eviction.";
    if (oracle == question.evict_at) return " The oracle drops " + token + " at the same query: right eviction.";
    return " The oracle drops " + token + " already at " + std::to_string(oracle) + ": right eviction.";
  }
  if (visible(question.q, t, oracle)) return " The oracle keeps " + token + " too, " + until + ": rightly kept.";
  return " The oracle dropped " + token + " at " + std::to_string(oracle) + ": wrongly kept.";
}

std::string weakest_of(const Question& question) {
  return "the weakest of " + counted(question.geometry.top_k, "kept token");
}

std::string explain_lost_contest(const Question& question, const Contest& c) {
  const ScorePair scores(c.newcomer_effective, c.boundary_effective);
  if (c.evicted == c.boundary) {
    return ": it was " + weakest_of(question) + " (effective score " + scores.b + ") when " +
           token_name(question.run, c.newcomer) + " (" + scores.a + ") left the window; margin " + scores.margin + ".";
  }
  const bool tie = c.newcomer_effective == c.boundary_effective;
  return ", on leaving the window: its effective score " + scores.a + (tie ? " only equalled" : " was below") +
         " that of " + token_name(question.run, c.boundary) + " (" + scores.b + "), " + weakest_of(question) +
         (tie ? ", and of equals the older stays." : "; margin " + scores.margin + ".");
}

std::string explain_threshold(const Question& question, bool evicted) {
  const float score = question.score();
  if (std::isnan(score)) return ": its score was not recorded.";
  const ScorePair numbers(score, question.plan.threshold);
  const char* verb =
      question.plan.strict ? (evicted ? " is not above" : " is above") : (evicted ? " is below" : " reaches");
  return ": its score " + numbers.a + verb + " the threshold " + numbers.b + "; margin " + numbers.margin + ".";
}

/// Of a policy that evicts by the attention of the queries so far.
std::string explain_least_attention(const Question& question, const Contest& c) {
  const bool sum = question.plan.eviction == StepEviction::attention_sum;
  char attention[32];
  std::snprintf(attention, sizeof attention, "%.3g", c.boundary_effective);
  return std::string(": when ") + token_name(question.run, c.newcomer) + " came there were more than " +
         std::to_string(question.geometry.budget()) + " tokens, and it had the least attention, " + attention +
         (sum ? " over all queries so far." : " of that query.");
}

std::string explain_compression(const Question& question) {
  if (question.plan.compression.kind == Compression::Kind::expected_attention) {
    return ", with all tokens below the budget's best by expected attention.";
  }
  return ", with all tokens to which the newest " + counted_queries(question.plan.compression.observe) +
         " attended least.";
}

/// Whether the head keeps sinks and window alone, whatever the policy does elsewhere.
bool is_local(const Question& question) {
  const RunRecord& run = question.run;
  return !run.local_heads.empty() && run.local_heads[question.layer * run.model.n_kv_heads + question.kv_head] != 0;
}

std::string explain_evicted(const Question& question) {
  const std::string start =
      question.name() + " left " + question.head() + " at query " + std::to_string(question.evict_at);
  const std::string& policy = question.run.policy.name;
  const bool on_leaving = question.evict_at == question.out();
  const bool local = on_leaving && is_local(question);
  if (question.plan.admission == Admission::threshold && on_leaving && !local) {
    return start + explain_threshold(question, true) + oracle_verdict(question, true);
  }
  if (question.plan.compression.kind != Compression::Kind::none) {
    return start + explain_compression(question) + oracle_verdict(question, true);
  }
  const Contest* contest = question.contest_at(question.evict_at);
  if (contest != nullptr && contest->evicted == question.t && question.plan.eviction != StepEviction::none) {
    return start + explain_least_attention(question, *contest) + oracle_verdict(question, true);
  }
  if (contest != nullptr && contest->evicted == question.t) {
    return start + explain_lost_contest(question, *contest) + oracle_verdict(question, true);
  }
  if (question.evict_at == question.out() && (policy == "streaming" || local || question.geometry.top_k == 0)) {
    return start + " with the window: this " + (local ? "head" : "policy") + " keeps only " +
           counted(question.geometry.n_sink, "sink") + " and the newest " + counted(question.geometry.window, "token") +
           "." + oracle_verdict(question, true);
  }
  return start + "; no contest was recorded for it." + oracle_verdict(question, true);
}

/// How a token came to be kept when it left the window.
std::string explain_admission(const Question& question) {
  if (question.run.policy.name == "full") return ": a full cache evicts nothing.";
  if (question.plan.eviction != StepEviction::none) return ": other tokens had less attention.";
  if (question.plan.admission == Admission::keep) {
    const bool compresses = question.plan.compression.kind != Compression::Kind::none;
    return compresses ? ": no compression has dropped it." : ": this head keeps everything.";
  }
  if (question.plan.admission == Admission::threshold) return explain_threshold(question, false);
  const std::string start = ": on leaving the window at query " + std::to_string(question.out());
  const Contest* contest = question.contest_at(question.out());
  if (contest == nullptr || contest->newcomer != question.t) {
    return question.run.contests.empty()
               ? ": no contest was recorded for it."
               : start + " it found a free place among " + std::to_string(question.geometry.top_k) + ".";
  }
  const ScorePair scores(contest->newcomer_effective, contest->boundary_effective);
  return start + " its effective score " + scores.a + " beat " + token_name(question.run, contest->boundary) + " (" +
         scores.b + "), " + weakest_of(question) + "; margin " + scores.margin + ".";
}

std::string explain_kept(const Question& question) {
  std::string text = question.name() + " is kept by " + question.head() + " at query " + std::to_string(question.q) +
                     explain_admission(question);
  if (question.evict_at < kUndecided) text += " It leaves at query " + std::to_string(question.evict_at) + ".";
  return text + oracle_verdict(question, false);
}

std::string explain_window(const Question& question) {
  std::string text = question.name() + " is in the window of query " + std::to_string(question.q) + " in " +
                     question.head() + ": the newest " + counted(question.geometry.window, "token") +
                     " always stay. It leaves the window at query " + std::to_string(question.out());
  if (question.run.status != RunStatus::running && question.evict_at == kUndecided) {
    return text + ", after the end of the run: no decision was made.";
  }
  if (question.evict_at == question.out()) return text + " and the cache with it.";
  return text + (question.evict_at == kUndecided ? "." : " and is kept then.");
}

/// The sentences speak of one policy, that of the beginning.
std::string change_note(const RunRecord& run, std::int32_t q) {
  const auto last =
      std::find_if(run.changes.rbegin(), run.changes.rend(), [&](const PolicyChange& change) { return change.q <= q; });
  if (last == run.changes.rend()) return {};
  return " The policy was changed at query " + std::to_string(last->q) + " to " + last->policy.to_string() +
         "; this speaks of the one the run began with.";
}

}  // namespace

std::string explain_token(const RunRecord& run, int layer, int kv_head, std::int32_t t, std::int32_t q) {
  if (t < 0 || t >= run.n_tokens() || run.evict_at.empty()) {
    return "There is no token " + std::to_string(t) + ": the run has " + std::to_string(run.n_tokens()) + " tokens.";
  }
  if (layer < 0 || layer >= run.evict_at.n_layers() || kv_head < 0 || kv_head >= run.evict_at.n_kv_heads()) {
    return "There is no layer " + std::to_string(layer) + " head " + std::to_string(kv_head) + ".";
  }
  const std::vector<std::int32_t>& row = run.evict_at.row(layer, kv_head);
  const std::int32_t evict_at = static_cast<std::size_t>(t) < row.size() ? row[t] : kUndecided;
  const RetentionGeometry geometry = run.geometry();
  const Question question{run,     layer, kv_head, t, q, geometry, policy_of(run.policy).plan(run.policy, geometry),
                          evict_at};
  switch (token_state(q, t, evict_at, question.geometry.n_sink, question.geometry.window)) {
    case TokenState::future:
      return question.name() + " is not there yet at query " + std::to_string(q) + ".";
    case TokenState::sink:
      return question.name() + " is a sink, among the first " + counted(question.geometry.n_sink, "token") + ": " +
             question.head() + " never evicts it.";
    case TokenState::window:
      return explain_window(question) + change_note(run, q);
    case TokenState::kept:
      return explain_kept(question) + change_note(run, q);
    case TokenState::evicted:
      return explain_evicted(question) + change_note(run, q);
  }
  return {};
}

}  // namespace kvscope
