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

std::string explain_lost_contest(const TokenQuestion& question, const Contest& c) {
  const ScorePair scores(c.newcomer_effective, c.boundary_effective);
  if (c.evicted == c.boundary) {
    return ": it was " + weakest_of(question) + " (effective score " + scores.b + ") when " +
           question.name_of(c.newcomer) + " (" + scores.a + ") left the window; margin " + scores.margin + ".";
  }
  const bool tie = c.newcomer_effective == c.boundary_effective;
  return ", on leaving the window: its effective score " + scores.a + (tie ? " only equalled" : " was below") +
         " that of " + question.name_of(c.boundary) + " (" + scores.b + "), " + weakest_of(question) +
         (tie ? ", and of equals the older stays." : "; margin " + scores.margin + ".");
}

std::string explain_threshold(const TokenQuestion& question) {
  if (std::isnan(question.score)) return ": its score was not recorded.";
  const ScorePair numbers(question.score, question.plan.threshold);
  const char* verb = question.plan.strict ? (question.evicted ? " is not above" : " is above")
                                          : (question.evicted ? " is below" : " reaches");
  return ": its score " + numbers.a + verb + " the threshold " + numbers.b + "; margin " + numbers.margin + ".";
}

/// What made a pool drop tokens at a query. One that is cut at times has room for what comes until the next, and is not full.
std::string why_pool_was_cut(const RetentionPlan& plan, std::int32_t q) {
  if (plan.cut_interval <= 1) return "the pool of all heads was full";
  if (q % plan.cut_interval != 0) return "the pool of all heads was cut by other numbers";
  return "the pool of all heads was cut, as every " + std::to_string(plan.cut_interval) +
         " queries, to have room until the next time";
}

/// Of the plan as it is at the query that is asked about: behind the prompt none is dense.
std::string until_pool_is_cut(const RetentionPlan& plan) {
  if (plan.cut_interval == 0) return plan.dense_prefill ? ", and nothing competes before the prompt ends" : "";
  return ", and nothing competes while there is room until the next cut" +
         (plan.cut_interval > 1 ? ", every " + std::to_string(plan.cut_interval) + " queries" : std::string());
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
        std::isnan(question.score) ? "" : " its score " + with_minus(number_text(question.score, 3)) + " is";
    return ":" + (score.empty() ? " it is" : score) + " among the best of all heads, which share " +
           counted(geometry.top_k, "place") + " a head in the mean.";
  }
  if (question.contest == nullptr || std::isnan(question.score))
    return ": " + why_pool_was_cut(question.plan, question.evict_at) + ".";
  const float lowest = question.contest->newcomer_effective, own = effective(question.evict_at);
  if (std::isnan(lowest)) return ": the pool of all heads has no place for a token that was judged.";
  const ScorePair scores(own, lowest);
  const bool tie = own == lowest;
  return ": " + why_pool_was_cut(question.plan, question.evict_at) + ", and its effective score " + scores.a +
         (tie ? " only equalled " : " was below ") + scores.b + ", the lowest that stayed in any head" +
         (tie ? "; of equals the older stays, then that of the lower layer and head."
              : "; margin " + scores.margin + ".");
}

/// The contest in which the token left.
bool lost_contest(const TokenQuestion& question) {
  return question.contest != nullptr && question.contest->evicted == question.t;
}

std::string explain_evicted(const TokenQuestion& question) {
  const bool local = question.went_with_window() && question.local;
  if (question.plan.admission == Admission::threshold && question.went_with_window() && !local) {
    return explain_threshold(question);
  }
  if (lost_contest(question)) return explain_lost_contest(question, *question.contest);
  if (question.went_with_window() && (local || question.geometry.top_k == 0)) {
    return std::string(" with the window: this ") + (local ? "head" : "policy") + " keeps only " +
           counted(question.geometry.n_sink, "sink") + " and the newest " + counted(question.geometry.window, "token") +
           ".";
  }
  return "; no contest was recorded for it.";
}

std::string explain_kept(const TokenQuestion& question) {
  if (question.plan.admission == Admission::keep) return ": this head keeps everything.";
  if (question.plan.admission == Admission::threshold) return explain_threshold(question);
  const std::string start = ": on leaving the window at query " + std::to_string(question.left_window());
  const Contest* contest = question.contest;
  if (contest == nullptr || contest->newcomer != question.t) {
    return question.has_contests
               ? start + " it found a free place among " + std::to_string(question.geometry.top_k) + "."
               : ": no contest was recorded for it.";
  }
  const ScorePair scores(contest->newcomer_effective, contest->boundary_effective);
  return start + " its effective score " + scores.a + " beat " + question.name_of(contest->boundary) + " (" + scores.b +
         "), " + weakest_of(question) + "; margin " + scores.margin + ".";
}

}  // namespace

std::string counted(int n, const char* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }

DecisionLog log_by_rule(const LogQuestion& question) {
  const std::string window = counted(question.geometry.window, "token");
  if (question.local || question.plan.admission == Admission::drop) {
    const std::string sinks = question.geometry.n_sink > 0 ? ", sinks apart" : "";
    return {.note = std::string("This ") + (question.local ? "head" : "policy") + " keeps the newest " + window +
                    ": every token goes when it leaves the window" + sinks + ". Nothing competes."};
  }
  switch (question.plan.admission) {
    case Admission::top_k:
      if (question.geometry.top_k == 0)
        return {.note = "Sinks and window take the whole budget: there is no place to compete for."};
      return {.rows = DecisionLog::Rows::contests,
              .note = "No contest yet: fewer than " + std::to_string(question.geometry.top_k) +
                      " tokens have left the window."};
    case Admission::threshold:
      return {.rows = DecisionLog::Rows::thresholds, .note = "No token has left the window yet."};
    case Admission::least:
      return log_of_least(question, "priority");
    case Admission::pooled:
      return {.rows = DecisionLog::Rows::pool,
              .note = "This head has lost nothing yet: all heads share " + counted(question.geometry.top_k, "place") +
                      " a head in the mean" + until_pool_is_cut(question.plan) + "."};
    case Admission::keep:
    case Admission::drop:
      break;
  }
  return {.note = "Nothing is evicted: this head keeps every token."};
}

DecisionLog log_of_least(const LogQuestion& question, const char* measure) {
  const std::string until = question.plan.dense_prefill ? "; nothing competes before the prompt ends" : "";
  return {.rows = DecisionLog::Rows::least,
          .note = "Nothing has left yet: the head holds up to " + counted(question.geometry.budget(), "token") + until +
                  ".",
          .measure = measure};
}

DecisionLog log_of_compression(const std::string& score, const std::string& later) {
  return {.note = "Evicted at the end of the prompt by score, many at once: " + score + ". " + later};
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
  if (!question.evicted) return ": other tokens had less attention.";
  if (!lost_contest(question)) return explain_by_rule(question);
  return ": when " + question.name_of(question.contest->newcomer) + " came there were more than " +
         std::to_string(question.geometry.budget()) + " tokens, and it had the least attention, " +
         number_text(question.contest->boundary_effective, 3) + whose;
}

std::string explain_observed_attention(const TokenQuestion& question, int n_queries) {
  if (!question.evicted) return ": no compression has dropped it.";
  return ", with all tokens to which the newest " + std::to_string(n_queries) +
         (n_queries == 1 ? " query" : " queries") + " attended least.";
}

}  // namespace kvscope
