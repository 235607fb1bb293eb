#pragma once
// Why a token was evicted or kept, as far as a policy can say.

#include <functional>
#include <string>

#include "engine/core/policy/policy_text.h"
#include "engine/core/policy/retention_plan.h"

namespace kvscope {

/// A token of one head that has left the window, and what a run recorded of it.
struct TokenQuestion {
  const PolicySpec& spec;
  RetentionGeometry geometry;
  RetentionPlan plan;
  std::int32_t t;
  std::int32_t evict_at;
  bool evicted;            // else it is kept
  bool local;              // the head keeps sinks and window alone, whatever the policy does elsewhere
  float score;             // NaN if none was recorded
  const Contest* contest;  // of the head, at evict_at or for a kept token at left_window(); null: none was recorded
  bool has_contests;       // whether the run recorded any
  std::function<std::string(std::int32_t t)> name_of;  // token 407 "7"

  std::int32_t left_window() const { return t + geometry.window; }
  /// It went when it left the window, by what decides then.
  bool went_with_window() const { return evicted && evict_at == left_window(); }
};

/// What there is to list of one head's decisions, a row each, and in which words.
struct DecisionLog {
  enum class Rows : std::uint8_t {
    none,
    contests,    // of the newcomer with the boundary
    least,       // one entered, that of least priority left
    thresholds,  // a score and what it was held against
    pool,        // one of those that the head lost, and the least of all heads that stayed
  };
  Rows rows = Rows::none;
  std::string note;               // what happens, in a sentence; beside rows: what they do not show
  std::string measure = "score";  // of least: what the one that left had least of; of thresholds: what is compared
  std::string threshold = "threshold";  // of thresholds: its letter
};
struct LogQuestion {
  const PolicySpec& spec;
  RetentionGeometry geometry;
  RetentionPlan plan;
  bool local;                 // as TokenQuestion has it
  int layer = 0;              // whose head it is
  std::int32_t n_tokens = 0;  // of the run, so far
};
/// By the plan's admission. What a policy says that declares nothing else.
DecisionLog log_by_rule(const LogQuestion& question);
/// Of a policy that evicts the token of least `measure` after each query.
DecisionLog log_of_least(const LogQuestion& question, const char* measure);
/// Of eviction of many at once, at the end of the prompt and then as `later` says, by `score`.
DecisionLog log_of_compression(const std::string& score, const std::string& later);
/// "u = 0.31 < tau 0.50", with as many decimals as it takes to see which is the larger.
std::string comparison_text(const DecisionLog& log, double score, double threshold, bool strict);

/// In the words of the plan's admission: threshold, contest, window, or nothing to tell. What a policy says that
/// declares nothing else.
std::string explain_by_rule(const TokenQuestion& question);
/// Of a policy that evicts the token of least attention after each query; `whose` ends the sentence.
std::string explain_least_attention(const TokenQuestion& question, const char* whose);
/// Of eviction of many by the attention of the newest n_queries, or without the sentence's reason for a kept token.
std::string explain_observed_attention(const TokenQuestion& question, int n_queries);

/// "1 sink", "4 sinks".
std::string counted(int n, const char* noun);

}  // namespace kvscope
