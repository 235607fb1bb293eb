#pragma once
// A policy at work: its plan for one model and one run, in the terms of the kernels.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/policy/density.h"
#include "engine/core/policy/policy.h"
#include "engine/scorer/token_scorer.h"
#include "kernels/retain_policy.h"

namespace kvscope::engine {

class LoadedModel;

/// What has been found of a text before the policy begins on it; empty of a policy that asks for nothing.
struct FirstPass {
  std::shared_ptr<const TokenScorer> future;  // of a plan that goes by the future, what gives its scores
  std::vector<float> thresholds;              // of a plan with a density, or given: KnownHeads::thresholds
  std::vector<std::int32_t> budgets;  // of a plan that divides its budget by scores, or given: KnownHeads::budgets
};

/// Who stays, for the chunks of a prompt and for decode steps. Both decide alike: for a plan with a sparse prefill, n
/// tokens at once leave what n steps leave (tests/engine/conformance_test.cpp holds every policy to it).
class ActivePolicy {
 public:
  /// n_positions: prompt + new tokens at most, to which budgets given as a share refer. Throws Error (bad input) if the
  /// model lacks the gate or heads that the policy wants, or its scorer was trained for another window.
  /// forced_chunk: RunRequest::chunk. first: what the plan needs of it; without, Error (usage) for a density.
  ActivePolicy(const PolicySpec& spec, int n_positions, const LoadedModel& model, int forced_chunk = 0,
               FirstPass first = {});

  /// The spec with what nobody wrote taken from the gates that it reads (with_gates()): what runs, and is recorded.
  /// Nothing else in the engine asks a gate for its threshold, window or sinks.
  static PolicySpec resolved(const PolicySpec& spec, const LoadedModel& model);

  /// Other parameters of the same policy from the next step on: threshold (in place of a density, too), decay, stride,
  /// drop, and a budget that is not larger. `accepts` is asked about parameters that the plan does not have. Throws Error (usage) for anything
  /// else, and nothing has changed then.
  void change(const PolicySpec& wanted, const std::function<bool(const PolicySpec&)>& accepts);
  /// Counts the changes.
  int version() const { return version_; }

  /// Resolved.
  const PolicySpec& spec() const { return spec_; }
  const RetentionPlan& plan() const { return plan_; }
  const RetentionGeometry& geometry() const { return geometry_; }
  /// Null if the plan reads no scores.
  const TokenScorer* scorer() const { return scorer_; }

  /// Whether the model itself lets a layer attend to its window alone: no policy decides anything there.
  bool is_local_layer(int layer) const { return !windows_.empty() && windows_[static_cast<std::size_t>(layer)] > 0; }
  bool has_local_layers() const { return !windows_.empty(); }
  /// The rule that the kernels apply at each decode step, in global layers and in one.
  kernels::RetainRule rule() const;
  kernels::RetainRule rule(int layer) const;
  /// Of a head; rule() is threshold.
  float threshold(int head) const;
  /// What a head may hold, and the most that any head may.
  int budget(int head) const { return plan_.of_head(geometry_, head).budget(); }
  int greatest_budget() const;
  /// Whether the budgets of heads differ, or may come to.
  bool divides_budget() const;
  /// Whether the eviction method is to find the budgets, when its scores are there.
  bool finds_budgets() const {
    return plan_.allocation.by_score() && plan_.source != ScoreSource::gate && first_.budgets.empty();
  }
  /// The budgets of a layer's heads from here on, as places beside sinks and window. Only for a plan that divides its budget
  /// by scores.
  void set_places(int layer, const std::vector<int>& places);
  bool treats_heads_apart() const { return plan_.has_local_heads(Locality::policy); }
  /// solve_density() and density_error() of the plan on the scores that a text of n_tokens had.
  std::vector<float> solved_thresholds(const HeadSeries<float>& scores, int n_tokens) const;
  double error_of(std::span<const float> thresholds, const HeadSeries<float>& scores, int n_tokens) const;
  /// solve_places() of the plan on the scores that a text of n_tokens had, as budgets.
  std::vector<std::int32_t> solved_budgets(const HeadSeries<float>& scores, int n_tokens) const;
  bool has_head_thresholds() const { return treats_heads_apart() || plan_.density > 0; }
  /// Tokens of a text after which the policy acts, from the first on; 0: it is a run's prompt and answer.
  int forced_chunk() const { return forced_chunk_; }
  /// Whether what is decided within a chunk takes effect at its end. The kernel decides token by token, but the budgets of
  /// heads that follow from scores are found between two queries.
  bool defers() const {
    return forced_chunk_ > 1 || (forced_chunk_ == 1 && plan_.admission == Admission::least && finds_budgets());
  }
  /// Whether the prompt's queries see all of it, so that nothing is decided before its end, and nobody asks for its scores:
  /// tokens that compete for a pool afterwards, or are compared with a threshold, have to be scored.
  bool prefills_densely() const {
    return !plan_.is_pooled() && !plan_.cuts_after_prompt() &&
           (plan_.dense_prefill || rule() == kernels::RetainRule::keep_all);
  }
  /// Whether a method evicts behind every chunk of a forced text and nothing leaves within one: a chunk may pass at once.
  bool evicts_behind_chunks() const {
    return defers() && prefills_densely() && !plan_.eviction.empty() && plan_.selection.tokens == 0;
  }
  /// Whether the prompt must pass token by token: what leaves depends on the attention of every query.
  bool prefills_by_steps() const { return plan_.admission == Admission::least && !plan_.dense_prefill; }

  /// Slots that a head may come to use while the prompt passes through, and after it unless a method says otherwise.
  int prompt_slots() const { return prefills_densely() ? n_positions_ : answer_slots(); }
  int answer_slots() const;
  /// Whether every head comes to use answer_slots(), so that pages may be taken once and memory stays as it is.
  bool has_fixed_budget() const { return plan_.has_fixed_budget() && !divides_budget() && !has_local_layers(); }

  /// The rule as a sparse prompt wants it: lifetimes of one head, decision by decision, on the host.
  std::unique_ptr<LifetimeRule> lifetime_rule(int head) const {
    const bool keeps = (evicts_behind_chunks() || plan_.cuts_after_prompt()) && !plan_.is_local(head);
    return keeps ? make_keep_all_rule() : make_rule(plan_, geometry_, head);
  }

 private:
  RetentionPlan make_plan(const PolicySpec& spec, const RetentionGeometry& geometry) const;
  void check_change(const PolicySpec& spec, const RetentionGeometry& geometry, const RetentionPlan& plan,
                    const std::function<bool(const PolicySpec&)>& accepts) const;

  const LoadedModel& model_;
  PolicySpec spec_;
  int n_positions_, forced_chunk_;
  FirstPass first_;
  std::vector<std::int32_t> windows_;  // ModelConfig::windows()
  RetentionGeometry geometry_;
  RetentionPlan plan_;
  const TokenScorer* scorer_ = nullptr;
  int version_ = 0;
};

}  // namespace kvscope::engine
