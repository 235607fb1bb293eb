#include "engine/core/policy/explanation.h"

#include <algorithm>
#include <cmath>

#include "engine/core/policy/policy.h"
#include "engine/core/support/minus.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

/// Two scores with as many decimals as it takes to see which is the larger.
struct ScorePair {
  std::string a, b, margin;
  /// Of the rounded numbers: who subtracts what stands there gets what stands beside it.
  static double shown_difference(double first, double second, int digits) {
    const double scale = std::pow(10., digits);
    return std::abs(std::round(first * scale) - std::round(second * scale)) / scale;
  }
  ScorePair(double first, double second) {
    const double difference = std::abs(first - second);
    int digits = 2;
    if (difference > 0 && std::isfinite(difference)) {
      digits = std::clamp(static_cast<int>(std::ceil(1 - std::log10(difference))), 2, 8);
    }
    a = with_minus(fixed_text(first, digits));
    b = with_minus(fixed_text(second, digits));
    margin =
        fixed_text(first == second ? 0 : shown_difference(first, second, digits), digits);  // -inf is a tie with -inf
  }
};

std::string weakest_of(const TokenQuestion& question) {
  return "the weakest of " + counted(question.geometry.top_k, "kept token");
}

std::string with_margin(const ScorePair& scores) { return " (margin " + scores.margin + ")."; }

std::string explain_lost_contest(const TokenQuestion& question, const Contest& c) {
  const ScorePair scores(c.newcomer_effective, c.boundary_effective);
  if (c.evicted == c.boundary) {
    return ": its effective score " + scores.b + " made it " + weakest_of(question) + " when " +
           question.name_of(c.newcomer) + ", score " + scores.a + ", left the window" + with_margin(scores);
  }
  const bool tie = c.newcomer_effective == c.boundary_effective;
  return ": when it left the window, its effective score " + scores.a + (tie ? " equalled" : " was below") + " the " +
         scores.b + " of " + question.name_of(c.boundary) + ", " + weakest_of(question) +
         (tie ? ". Ties keep the older token." : with_margin(scores));
}

std::string explain_threshold(const TokenQuestion& question) {
  if (std::isnan(question.score)) return ": its score was not recorded.";
  const ScorePair numbers(question.score, question.plan.threshold);
  const char* verb = question.plan.strict ? (question.evicted ? " is not above" : " is above")
                                          : (question.evicted ? " is below" : " reaches");
  return ": its score " + numbers.a + verb + " the threshold " + numbers.b + with_margin(numbers);
}

/// What made a pool drop tokens at a query. One that is cut at times has room for what comes until the next, and is not full.
std::string why_pool_was_cut(const RetentionPlan& plan, std::int32_t q) {
  if (plan.cut_interval <= 1) return " The shared pool was full.";
  if (q % plan.cut_interval != 0) return " The shared pool was trimmed with other settings.";
  return " The shared pool is trimmed every " + std::to_string(plan.cut_interval) + " queries.";
}

/// Of the plan as it is at the query that is asked about: after the prompt none is dense.
std::string when_pool_is_cut(const RetentionPlan& plan) {
  if (plan.cut_interval == 0) return plan.dense_prefill ? ". Nothing is evicted before the prompt ends." : ".";
  return plan.cut_interval == 1 ? ", trimmed before every query."
                                : ", trimmed every " + std::to_string(plan.cut_interval) + " queries.";
}

/// Of Admission::pooled; the contest has what stayed, whichever of the head's tokens it names.
std::string explain_pooled(const TokenQuestion& question) {
  const RetentionGeometry& geometry = question.geometry;
  const auto effective = [&](std::int32_t q) {
    return effective_score(question.score, question.t, q, static_cast<float>(geometry.log_gamma),
                           geometry.decay_stride);
  };
  if (!question.evicted) {
    const std::string score =
        std::isnan(question.score) ? "it" : "its score " + with_minus(number_text(question.score, 3));
    return ": " + score + " ranks among the best in the shared pool (" + counted(geometry.top_k, "slot") +
           " per head on average).";
  }
  if (question.contest == nullptr || std::isnan(question.score))
    return "." + why_pool_was_cut(question.plan, question.evict_at);
  const float lowest = question.contest->newcomer_effective, own = effective(question.evict_at);
  if (std::isnan(lowest)) return ": the shared pool has no room for any scored token.";
  const ScorePair scores(own, lowest);
  const bool tie = own == lowest;
  return ": its effective score " + scores.a + (tie ? " equalled" : " was below") + " the pool cutoff of " + scores.b +
         (tie ? ". Ties keep the older token, then the one in the lower layer and head." : with_margin(scores)) +
         why_pool_was_cut(question.plan, question.evict_at);
}

/// The contest in which the token left.
bool lost_contest(const TokenQuestion& question) {
  return question.contest != nullptr && question.contest->evicted == question.t;
}

std::string explain_evicted(const TokenQuestion& question) {
  const bool local = question.went_with_window() && question.local;
  const bool at_its_time = question.went_with_window() || question.plan.dense_prefill;
  if (question.plan.admission == Admission::threshold && at_its_time && !local) {
    return explain_threshold(question);
  }
  if (lost_contest(question)) return explain_lost_contest(question, *question.contest);
  if (question.went_with_window() && (local || question.geometry.top_k == 0)) {
    return std::string(": this ") + (local ? "head" : "policy") + " keeps only " +
           (question.geometry.n_sink > 0 ? counted(question.geometry.n_sink, "sink") + " and " : "") + "the newest " +
           counted(question.geometry.window, "token") + ".";
  }
  return ". No contest was recorded for it.";
}

std::string explain_kept(const TokenQuestion& question) {
  if (question.plan.admission == Admission::keep) return ": this head keeps everything.";
  if (question.plan.admission == Admission::threshold) return explain_threshold(question);
  const std::string start = ": when it left the window at query " + std::to_string(question.left_window());
  const Contest* contest = question.contest;
  if (contest == nullptr || contest->newcomer != question.t) {
    return question.has_contests ? start + ", there was room: " + counted(question.geometry.top_k, "slot") + "."
                                 : ". No contest was recorded for it.";
  }
  const ScorePair scores(contest->newcomer_effective, contest->boundary_effective);
  return start + ", its effective score " + scores.a + " beat the " + scores.b + " of " +
         question.name_of(contest->boundary) + ", " + weakest_of(question) + with_margin(scores);
}

}  // namespace

std::string counted(int n, const char* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }

DecisionLog log_by_rule(const LogQuestion& question) {
  const std::string window = counted(question.geometry.window, "token");
  if (question.local || question.plan.admission == Admission::drop) {
    const std::string sinks = question.geometry.n_sink > 0 ? counted(question.geometry.n_sink, "sink") + " and " : "";
    return {.note = std::string("This ") + (question.local ? "head" : "policy") + " keeps " + sinks + "the newest " +
                    window + ". All other tokens are evicted as they leave the window."};
  }
  switch (question.plan.admission) {
    case Admission::top_k:
      if (question.geometry.top_k == 0)
        return {.note = "The whole budget is sinks and window, so there is nothing to choose."};
      return {.rows = DecisionLog::Rows::contests,
              .note = "No contest yet: fewer than " + std::to_string(question.geometry.top_k) +
                      " tokens have left the window."};
    case Admission::threshold:
      return {.rows = DecisionLog::Rows::thresholds, .note = "No token has left the window yet."};
    case Admission::least:
      return log_of_least(question, "priority");
    case Admission::pooled:
      return {.rows = DecisionLog::Rows::pool,
              .note = "Nothing evicted yet. All heads share one pool (" + counted(question.geometry.top_k, "slot") +
                      " per head on average)" + when_pool_is_cut(question.plan)};
    case Admission::keep:
    case Admission::drop:
      break;
  }
  return {.note = "Nothing is evicted: this head keeps every token."};
}

DecisionLog log_of_least(const LogQuestion& question, const char* measure) {
  const std::string until = question.plan.dense_prefill ? " Nothing is evicted before the prompt ends." : "";
  return {
      .rows = DecisionLog::Rows::least,
      .note = "Nothing evicted yet. The head holds up to " + counted(question.geometry.budget(), "token") + "." + until,
      .measure = measure};
}

DecisionLog log_of_compression(const std::string& score, const std::string& later) {
  return {.note = "At the end of the prompt, the tokens with the lowest scores are evicted together. The score is " +
                  score + ". " + later};
}

std::string comparison_text(const DecisionLog& log, double score, double threshold, bool strict) {
  if (std::isnan(score)) return log.measure + " was not recorded";
  const ScorePair numbers(score, threshold);
  const char* sign = score < threshold ? " < " : score == threshold ? " = " : strict ? " > " : " >= ";
  return log.measure + " = " + numbers.a + sign + log.threshold + " " + numbers.b;
}

std::string explain_by_rule(const TokenQuestion& question) {
  if (question.plan.admission == Admission::pooled) return explain_pooled(question);
  return question.evicted ? explain_evicted(question) : explain_kept(question);
}

std::string explain_least_attention(const TokenQuestion& question, const char* whose) {
  if (!question.evicted) return ": other tokens received less attention.";
  if (!lost_contest(question)) return explain_by_rule(question);
  return ": when " + question.name_of(question.contest->newcomer) + " arrived, there were more than " +
         std::to_string(question.geometry.budget()) + " tokens, and this one had received the least attention (" +
         number_text(question.contest->boundary_effective, 3) + whose + ").";
}

std::string explain_observed_attention(const TokenQuestion& question, int n_queries) {
  if (!question.evicted) return ": no compression evicted it.";
  return ", with the other tokens to which the newest " + std::to_string(n_queries) +
         (n_queries == 1 ? " query" : " queries") + " attended least.";
}

}  // namespace kvscope
