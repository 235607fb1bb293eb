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
  float score;             // NaN if none was recorded
  const Contest* contest;  // of the head, at evict_at or for a kept token at left_window(); null: none was recorded
  bool has_contests;       // whether the run recorded any
  std::function<std::string(std::int32_t t)> name_of;  // token 407 "7"

  std::int32_t left_window() const { return t + geometry.window; }
  /// It went when it left the window, by what decides then.
  bool went_with_window() const { return evicted && evict_at == left_window(); }
};

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
