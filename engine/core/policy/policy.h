#pragma once
// What one policy is to the rest of the project: its declaration, its plan and its words. One file a policy, listed in
// policy_list.cpp.

#include <memory>

#include "engine/core/lifetime/lifetime_rule.h"
#include "engine/core/policy/explanation.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/policy/retention_plan.h"

namespace kvscope {

/// The heads of a model, as hybrids choose among them.
struct HeadsOfModel {
  int n_layers = 0, n_kv_heads = 0;
  std::vector<float> alpha;  // [n_layers * n_kv_heads] from a loaded head directory; empty: none is loaded
};

inline bool uses_every(const PolicySpec&, std::string_view) { return true; }
inline RetentionPlan keep_everything(const PolicySpec&, const RetentionGeometry&) { return {}; }

struct Policy {
  PolicyInfo info;
  /// Geometry of a run of n_positions; may throw Error.
  RetentionGeometry (*geometry)(const PolicySpec& spec, int n_positions);
  RetentionPlan (*plan)(const PolicySpec& spec, const RetentionGeometry& geometry) = keep_everything;
  /// Of a policy that treats heads apart, RetentionPlan::local_heads. Throws std::invalid_argument if it wants alpha
  /// and there is none.
  std::vector<std::uint8_t> (*local_heads)(const PolicySpec& spec, const HeadsOfModel& heads) = nullptr;
  /// Why a token that has left the window was evicted, or is kept. It goes on where "Token 7 left layer 0 head 1 at
  /// query 90" or "... is kept by ... at query 90" ends, up to a full stop.
  std::string (*explain)(const TokenQuestion& question) = explain_by_rule;
  /// What the log of a head lists, and in which words.
  DecisionLog (*log)(const LogQuestion& question) = log_by_rule;
  /// Whether a parameter means anything beside the others.
  bool (*uses)(const PolicySpec& spec, std::string_view parameter) = uses_every;
  /// Of a policy that treats heads apart: "12 of 24 heads global = 50 %, A: ..."; empty where only a run can tell.
  std::string (*heads_note)(const PolicySpec& spec, const HeadsOfModel& heads) = nullptr;
  /// Of a policy whose budget is no parameter of its own but follows from others.
  int (*budget_tokens)(const PolicySpec& spec) = nullptr;
};

/// Like find_policy(), with geometry and plan; throws Error (usage) listing the policies if there is none of that name.
const Policy& policy_of(const PolicySpec& spec);

/// Which head of which model: hybrids treat heads apart.
struct HeadIndex {
  int layer = 0, kv_head = 0;
  int n_layers = 1, n_kv_heads = 1;
  int flat() const { return layer * n_kv_heads + kv_head; }
};
/// What becomes of the tokens that leave the window of one head, evictions by attention apart. Throws std::logic_error
/// for a plan that decides by attention, token by token.
std::unique_ptr<LifetimeRule> make_rule(const RetentionPlan& plan, const RetentionGeometry& geometry, int head = 0);

}  // namespace kvscope
