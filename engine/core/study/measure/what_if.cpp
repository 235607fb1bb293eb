#include "engine/core/study/measure/what_if.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/core/policy/allocation.h"
#include "engine/core/policy/density.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/policy/run_problems.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

/// The delay of the scorer that made the recorded scores; where it is not known, the window of a run whose policy used
/// it. nullopt if the run had no scorer or does not tell.
std::optional<int> recorded_delay(const RunRecord& run) {
  if (run.scorer.text.empty()) return std::nullopt;
  if (run.scorer.delay >= 0) return run.scorer.delay;
  const PolicyInfo* info = find_policy(run.policy);
  if (info != nullptr && info->needs_scorer) return run.geometry().window;
  return std::nullopt;
}

/// Whether the scores of `run`, if it has any, are of a kind that `spec` reads.
bool reads_scores_of(const RunRecord& run, const PolicySpec& spec) {
  const PolicyInfo& info = policy_of(spec).info;
  return info.gates.empty() || run.scorer.kind.empty() || std::ranges::count(info.gates, run.scorer.kind) > 0;
}

/// A declared rule reads the scores of its own method alone, and a parameter that is not the rule's may change them.
void check_method(const RunRecord& run, const PolicySpec& spec) {
  const std::string title(policy_of(spec).info.title);
  if (run.policy.declared != spec.declared)
    refuse("what-if", "scores", "scores from another policy (" + method_name(run.policy) + ")",
           "scores that " + title + " gave", "run the model under " + spec.name);
  for (const ParameterInfo& parameter : policy_of(spec).info.parameters) {
    const bool of_rule = parameter.name == "budget" || parameter.name == "sinks" || parameter.name == "threshold" ||
                         (parameter.name == "window" && run.scorer.delay >= 0);  // check_window() has the rest
    if (of_rule || spec.value(parameter.name) == run.policy.value(parameter.name)) continue;
    refuse("what-if", std::string(parameter.name), parameter_value(parameter, spec.value(parameter.name)),
           parameter_value(parameter, run.policy.value(parameter.name)) +
               ", as in the run: another one gives other scores",
           "run the model under " + spec.name);
  }
}

/// Throws unless reads_scores_of().
void check_gate(const RunRecord& run, const PolicySpec& spec) {
  if (spec.declared != nullptr) return check_method(run, spec);
  const PolicyInfo& info = policy_of(spec).info;
  if (reads_scores_of(run, spec)) return;
  refuse("what-if", "scores", "scores from another scorer (" + run.scorer.text + ")",
         "scores from " + scorer_titles(info.gates),
         "give the model, so that its gates score these tokens (--model), or run the model under " + spec.name +
             ", or use top-k or threshold, which accept any score");
}

/// Only for a spec that reads scores: a preview of sinks and window alone is exact for any window.
void check_window(const RunRecord& run, int window) {
  const std::optional<int> delay = recorded_delay(run);
  if (!delay || goes_with_delay(window, run.scorer.kind, *delay)) return;
  if (!fixes_window(run.scorer.kind, *delay)) {
    refuse("what-if", "window", "a window of " + std::to_string(window) + " tokens",
           "at least " + std::to_string(*delay) + ", because the run's gate looks that many tokens ahead");
  }
  refuse(
      "what-if", "window",
      "a window of " + std::to_string(window) + " tokens, but the scores were recorded with " + std::to_string(*delay),
      "window=" + std::to_string(*delay) +
          ": this scorer is delayed and reads the score of token t at query t + window, so another window would give "
          "other scores",
      "run the model with the new window");
}

const std::vector<float>& scores_of(const RunRecord& run, int head) {
  static const std::vector<float> none;
  return run.scores.empty() ? none : run.scores.row(head / run.model.n_kv_heads, head % run.model.n_kv_heads);
}

/// Throws unless a head has a score for every token that competes before the run's end.
void check_scores(const RunRecord& run, int head, const RetentionGeometry& geometry) {
  const std::vector<float>& scores = scores_of(run, head);
  for (int t = geometry.n_sink; t < run.queries() - geometry.window; ++t) {
    if (t < static_cast<int>(scores.size()) && !std::isnan(scores[t])) continue;
    refuse("what-if", "scores", "the run has no recorded score for token " + std::to_string(t),
           "a score for every token that left the window",
           "run again with a gate that scores tokens (--gate), or give the model, so that its gates score these "
           "tokens (--model)");
  }
}

/// What differs between heads, as far as a preview knows it.
struct HeadNumbers {
  std::vector<float> thresholds, log_gamma;
  std::vector<std::int32_t> budgets, windows;
  HeadIndex at(const RunRecord& run, int layer, int kv_head) const {
    return {layer, kv_head, run.model.n_layers, run.model.n_kv_heads, log_gamma, thresholds, budgets, windows};
  }
};

bool asks_the_same(const RunRecord& run, const RetentionPlan& plan, const RetentionGeometry& geometry) {
  const RetentionGeometry recorded = run.geometry();
  return policy_of(run.policy).plan(run.policy, recorded) == plan && recorded.n_sink == geometry.n_sink &&
         recorded.window == geometry.window;
}

HeadSeries<float> scores_of_prompt(const RunRecord& run) {
  if (run.scores.empty()) {
    refuse("what-if", "scores", "the run has no recorded scores", "scores to find a density's threshold, or budgets",
           "run again with a gate that scores tokens (--gate), or give the model, so that its gates score these "
           "tokens (--model)");
  }
  HeadSeries<float> scores = run.scores;
  scores.resize(static_cast<std::size_t>(run.prompt_len), std::nanf(""));
  return scores;
}

/// Those of the run if it asked the same question, else solved on its recorded scores, which were made under its policy.
std::vector<float> thresholds_of(const RunRecord& run, const PolicySpec& spec, const RetentionGeometry& geometry) {
  RetentionPlan plan = policy_of(spec).plan(spec, geometry);
  if (plan.density == 0) return {};
  if (const std::vector<float> own = run.thresholds(); !own.empty() && asks_the_same(run, plan, geometry)) return own;
  const std::size_t n_heads = static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads;
  const HeadNumbers any{.thresholds = std::vector<float>(n_heads),
                        .windows = run.model_windows()};  // who is local does not depend on them
  plan.heads = recorded_head_rules(spec, geometry, plan, any.at(run, 0, 0));
  return solve_density(plan, geometry, scores_of_prompt(run), run.prompt_len, recorded_delay(run).value_or(0));
}

/// The budgets of heads that follow from scores, likewise; empty for a policy without.
std::vector<std::int32_t> budgets_of(const RunRecord& run, const PolicySpec& spec, const RetentionGeometry& geometry,
                                     const std::vector<float>& log_gamma) {
  RetentionPlan plan = policy_of(spec).plan(spec, geometry);
  if (!plan.allocation.by_score() || plan.source != ScoreSource::gate) return {};
  if (!run.heads.empty() && asks_the_same(run, plan, geometry) && run.geometry().top_k == geometry.top_k) {
    return run.budgets();
  }
  plan.heads = recorded_head_rules(spec, geometry, plan,
                                   HeadNumbers{.log_gamma = log_gamma, .windows = run.model_windows()}.at(run, 0, 0));
  std::vector<std::int32_t> budgets =
      solve_places(plan, geometry, scores_of_prompt(run), run.prompt_len, recorded_delay(run).value_or(0));
  for (std::int32_t& budget : budgets) budget += geometry.n_sink + geometry.window;
  return budgets;
}

/// Lifetimes and contests of `result`, each head by itself.
void preview_of_heads(const RunRecord& run, const PolicySpec& spec, const HeadNumbers& numbers, RunRecord& result) {
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      std::vector<Contest> contests;
      const HeadIndex of_model = numbers.at(run, layer, head);
      policy_lifetimes(spec, run.n_positions, of_model, scores_of(run, of_model.flat()), run.queries(),
                       result.evict_at.row(layer, head), &contests);
      for (Contest& contest : contests) {
        contest.layer = static_cast<std::int16_t>(layer);
        contest.kv_head = static_cast<std::int16_t>(head);
      }
      result.contests.insert(result.contests.end(), contests.begin(), contests.end());
    }
  }
}

/// A prompt that is read in full evicts at its end what token by token would have left before. The contests of the prompt were
/// not held then.
void evict_after_prompt(RunRecord& run) {
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      if (run.is_local_by_model(layer, head)) continue;
      for (std::int32_t& at : run.evict_at.row(layer, head)) at = std::max(at, run.prompt_len);
    }
  }
  std::erase_if(run.contests, [&](const Contest& contest) { return contest.q < run.prompt_len; });
}

/// The same of a budget that all heads share; the prompt is dense, as that of a run would be.
void preview_of_pool(const RunRecord& run, const PolicySpec& spec, const HeadNumbers& numbers, RunRecord& result) {
  pooled_lifetimes(spec, {run.n_positions, run.prompt_len, run.queries()}, numbers.at(run, 0, 0), run.scores,
                   recorded_delay(run).value_or(0), result.evict_at, &result.contests);
}

/// The run as if this gate had scored it.
RunRecord scored_by(const RunRecord& run, const GateScores& gate) {
  RunRecord scored = run;
  scored.scores = gate.scores;
  scored.scorer = {.kind = gate.gate.kind, .delay = gate.gate.delay, .text = gate.text, .gate = gate.name};
  scored.heads.clear();  // of other scores
  return scored;
}

/// `log_gamma`: the heads' own decays, where they are known.
RunRecord preview_of(const RunRecord& run, const PolicySpec& spec, const std::vector<float>& log_gamma,
                     const std::vector<std::int32_t>& budgets);

ScoreSource source_of(const PolicySpec& spec) { return policy_of(spec).plan(spec, {}).source; }

/// Whether a run under it records scores of tokens that another policy may read.
bool records_scores(const PolicySpec& spec) {
  return source_of(spec) == ScoreSource::gate || source_of(spec) == ScoreSource::engine;
}

}  // namespace

bool lacks_scores(const RunRecord& run, const PolicySpec& asked, std::string_view scorer_kind, std::string_view gate) {
  if (source_of(asked) != ScoreSource::gate) return false;
  if (const std::string of_run = gate_of(run); !gate.empty() && !of_run.empty() && gate != of_run) return true;
  if (!scorer_kind.empty() && !run.scorer.kind.empty() && scorer_kind != run.scorer.kind) return true;
  // Which gate it was old traces do not say.
  const bool nothing_scored = run.scorer.kind.empty() && !records_scores(run.policy);
  return run.scores.empty() || nothing_scored || run.scorer.kind == "random" || !reads_scores_of(run, asked);
}

RunRecord what_if(const RunRecord& run, const PolicySpec& asked, const ScoresOfGates& gates,
                  const std::vector<std::int32_t>& budgets) {
  const GateScores* gate = scores_of(gates, policy_of(asked).info.gates);
  if (gate == nullptr || !lacks_scores(run, asked, gate->gate.kind, gate->name))
    return preview_of(run, policy_after(asked, run.policy), run.log_gamma(), budgets);
  const HeadsOfModel shape{run.model.n_layers, run.model.n_kv_heads};
  const PolicySpec spec = policy_on(asked, shape, {.scorers = {gate->gate}, .heads = {}});
  check_gate_scores({*gate}, run.model, run.n_tokens());
  return preview_of(scored_by(run, *gate), spec, gate->log_gamma, budgets);
}

namespace {

RunRecord preview_of(const RunRecord& run, const PolicySpec& spec, const std::vector<float>& log_gamma,
                     const std::vector<std::int32_t>& budgets) {
  const RetentionGeometry geometry = spec.geometry(run.n_positions);
  const RetentionPlan plan = policy_of(spec).plan(spec, geometry);
  const bool needs_scores = records_scores(spec) && plan.follows_from_scores();
  if (needs_scores) check_gate(run, spec);
  if (needs_scores) check_window(run, geometry.window);
  for (int head = 0; needs_scores && head < run.model.n_layers * run.model.n_kv_heads; ++head)
    if (!run.is_local_by_model(head / run.model.n_kv_heads, head % run.model.n_kv_heads))
      check_scores(run, head, geometry);

  RunRecord result = run;
  result.policy = spec;
  result.contests.clear();
  result.reads.clear();
  result.changes.clear();
  const HeadNumbers numbers{.thresholds = thresholds_of(run, spec, geometry),
                            .log_gamma = log_gamma,
                            .budgets = budgets.empty() ? budgets_of(run, spec, geometry, log_gamma) : budgets,
                            .windows = run.model_windows()};
  result.evict_at = LifetimeMap(run.model.n_layers, run.model.n_kv_heads);
  result.evict_at.resize(run.ids.size(), kUndecided);
  if (plan.is_pooled()) {
    preview_of_pool(run, spec, numbers, result);
  } else {
    preview_of_heads(run, spec, numbers, result);
    if (plan.dense_prefill) evict_after_prompt(result);
  }
  result.heads = recorded_head_rules(spec, geometry, plan, numbers.at(run, 0, 0));
  result.output_error = OutputError();  // of the recorded lifetimes: a preview measures nothing
  result.recall_so_far.clear();         // that of the policy which ran
  // The mass of a token is its mean over queries from t + window on: that of another window is not known.
  if (geometry.window != run.geometry().window) {
    result.future_mass = HeadSeries<float>();
    result.future = FutureKinds();
  }
  return result;
}

}  // namespace

std::string what_if_note(const RunRecord& run, const RunRecord& preview) {
  std::string note;
  if (!(preview.scorer == run.scorer)) {
    const bool is_dense = policy_of(run.policy).plan(run.policy, run.geometry()).keeps_everything();
    note = "the scores come from " + preview.scorer.text + " in a dense pass over the run's tokens";
    if (!is_dense) note += ", whose hidden states differ from those of a run that evicts";
  }
  if (run.changes.empty()) return note;
  note += (note.empty() ? "" : "; ");
  note += "the recorded run changed its policy at quer" + std::string(run.changes.size() == 1 ? "y" : "ies");
  for (std::size_t i = 0; i < run.changes.size(); ++i) note += (i == 0 ? " " : ", ") + std::to_string(run.changes[i].q);
  return note + "; the preview uses one policy for the whole run";
}

}  // namespace kvscope
