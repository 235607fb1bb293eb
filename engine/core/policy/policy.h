#pragma once
// What one policy is to the rest of the project: its declaration, its plan and its words. One file a policy, listed in
// policy_list.cpp.

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/lifetime/lifetime_rule.h"
#include "engine/core/policy/explanation.h"
#include "engine/core/policy/head_rules.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/policy/retention_plan.h"

namespace kvscope {

/// The heads of a model, as hybrids choose among them.
struct HeadsOfModel {
  int n_layers = 0, n_kv_heads = 0;
  std::vector<float> alpha = {};  // [n_layers * n_kv_heads] from a loaded head directory; empty: none is loaded
  int n_heads() const { return n_layers * n_kv_heads; }
};

/// The numbers of a gate that policies have parameters for; the words are those of GateConfig (gate_file.h).
struct GateNumbers {
  double threshold = 0;
  bool strict = false;
  int window = 0, n_sink = 0;
  int pool_interval = 0;   // trained under one budget for all heads, cut so often; 0: under each head's own
  bool has_decay = false;  // log_gamma a head
  double share = 0;        // of a head directory: the heads whose value passes the threshold, as a share of all
};
template <typename GateConfig>
GateNumbers gate_numbers(const GateConfig& config) {
  return {.threshold = config.threshold,
          .strict = config.strict,
          .window = config.window,
          .n_sink = config.n_sink,
          .pool_interval = config.pool_interval};
}
/// What is loaded of what a policy reads; null: nothing, or it reads none.
struct GatesOfPolicy {
  const GateNumbers* scorer = nullptr;
  const GateNumbers* heads = nullptr;
};
/// The share of head values that pass the numbers' threshold.
double share_passing(std::span<const float> alpha, const GateNumbers& heads);
/// Parameters and the values that a gate gives them.
using GateDefaults = std::vector<std::pair<std::string_view, double>>;
GateDefaults defaults_of_scorer(const GateNumbers& gate);
GateDefaults defaults_of_heads(const GateNumbers& heads);

inline bool reads_no_heads(const PolicySpec&) { return false; }
inline bool uses_every(const PolicySpec&, std::string_view) { return true; }
inline RetentionPlan keep_everything(const PolicySpec&, const RetentionGeometry&) { return {}; }

/// A share of a text's tokens, as `kvscope eval --sweep` compares policies at.
struct SweepPoint {
  std::string percent;  // "12.5%"
  int budget = 0;       // the same in tokens
  /// ",window=16": a quarter of the budget, 64 at most.
  std::string window() const;
};

struct Policy {
  PolicyInfo info;
  /// Geometry of a run of n_positions; may throw Error.
  RetentionGeometry (*geometry)(const PolicySpec& spec, int n_positions);
  RetentionPlan (*plan)(const PolicySpec& spec, const RetentionGeometry& geometry) = keep_everything;
  /// Of a policy that treats heads apart: 1 for a head that keeps sinks and window alone. Throws std::invalid_argument if it wants alpha
  /// and there is none.
  std::vector<std::uint8_t> (*local_heads)(const PolicySpec& spec, const HeadsOfModel& heads) = nullptr;
  /// Of the same, what was asked for with `full` as the share of global heads that comes of it on this model, where that
  /// does not follow from `full` itself. Before with_gates(). Throws Error (usage) for a number that contradicts it.
  PolicySpec (*with_own_share)(const PolicySpec& spec, const HeadsOfModel& heads) = nullptr;
  /// Why a token that has left the window was evicted, or is kept. It goes on where "Token 7 left layer 0 head 1 at
  /// query 90" or "... is kept by ... at query 90" ends, up to a full stop.
  std::string (*explain)(const TokenQuestion& question) = explain_by_rule;
  /// Which of its parameters the numbers of its scorer are the defaults of; those that it does not have are passed over.
  GateDefaults (*of_scorer)(const GateNumbers& gate) = defaults_of_scorer;
  /// Whether it reads a head directory: defaults_of_heads() then go before the scorer's.
  bool (*reads_heads)(const PolicySpec& spec) = reads_no_heads;
  /// What the log of a head lists, and in which words.
  DecisionLog (*log)(const LogQuestion& question) = log_by_rule;
  /// Whether a parameter means anything beside the others.
  bool (*uses)(const PolicySpec& spec, std::string_view parameter) = uses_every;
  /// Of a policy that treats heads apart: "12 of 24 heads global = 50 %, A: ..."; empty where only a run can tell.
  std::string (*heads_note)(const PolicySpec& spec, const HeadsOfModel& heads) = nullptr;
  /// Of a policy whose budget is no parameter of its own but follows from others.
  int (*budget_tokens)(const PolicySpec& spec) = nullptr;
  /// What `eval --sweep` runs of it at a share of the tokens; null: nothing, it needs a gate or heads.
  std::vector<std::string> (*sweep)(const SweepPoint& at) = nullptr;
};

/// What `eval --sweep` compares at a share: of every policy what it declares, in the order in which they are offered.
std::vector<std::string> swept_policies(const SweepPoint& at);

/// Like find_policy(), with geometry and plan; throws Error (usage) listing the policies if there is none of that name.
const Policy& policy_of(const PolicySpec& spec);

/// The policy of a run on a model with these gates: what was not written takes the gates' own numbers, what was written
/// stands, and nothing is open any more. Throws Error (usage) for a number that the parameter may not have.
PolicySpec with_gates(const PolicySpec& spec, const GatesOfPolicy& gates);
/// Whether it asks for each head's own decay, which a gate must have then.
bool has_learned_decay(const PolicySpec& spec);

/// Which head of which model: hybrids treat heads apart.
struct HeadIndex {
  int layer = 0, kv_head = 0;
  int n_layers = 1, n_kv_heads = 1;
  std::span<const float> log_gamma = {};       // as KnownHeads has them
  std::span<const float> thresholds = {};      // likewise
  std::span<const std::int32_t> budgets = {};  // likewise
  std::span<const std::int32_t> windows = {};  // likewise
  KnownHeads known() const {
    return {.n_layers = n_layers,
            .n_kv_heads = n_kv_heads,
            .log_gamma = log_gamma,
            .thresholds = thresholds,
            .budgets = budgets,
            .windows = windows};
  }
  int flat() const { return layer * n_kv_heads + kv_head; }
};
/// head_rules() of a recorded run, which has no head directory at hand. Throws Error where one is needed.
HeadRules recorded_head_rules(const PolicySpec& spec, const RetentionGeometry& geometry, const RetentionPlan& plan,
                              const HeadIndex& heads);
/// policy_lifetimes() of all heads of a policy whose plan is_pooled(), which no head has by itself: pooled_top_k() with a cut
/// before every query from first_query on, or by the plan's cut_interval. scores: [n_layers][n_kv_heads][tokens]; delay: tokens between a token and its
/// score; heads: n_layers, n_kv_heads and what is known of a learned decay. Throws Error as policy_lifetimes() does.
struct RecordedQueries {
  int n_positions, first_query, n_queries;
};
void pooled_lifetimes(const PolicySpec& spec, const RecordedQueries& run, const HeadIndex& heads,
                      const HeadSeries<float>& scores, int delay, LifetimeMap& evict_at,
                      std::vector<Contest>* contests);

/// What becomes of the tokens that leave the window of one head, evictions by attention apart. Throws std::logic_error
/// for a plan that decides by attention, token by token.
std::unique_ptr<LifetimeRule> make_rule(const RetentionPlan& plan, const RetentionGeometry& geometry, int head = 0);

}  // namespace kvscope
