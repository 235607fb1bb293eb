#include "views/figure/caption.h"

#include <algorithm>
#include <set>

#include "engine/core/policy/allocation.h"
#include "engine/core/policy/density.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/record/run_end.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/support/error.h"

namespace kvscope::views {
namespace {

/// That of an engine with its title, which no text of it says.
std::string policy_of_run(const RunRecord& run) {
  const PolicySpec& policy = run.policy;
  return policy.to_string() + (policy.declared == nullptr ? "" : " (" + method_name(policy) + ")");
}

std::string recorded_by(const RunRecord& run) {
  return run.recorder.empty() ? "" : ", recorded by " + escape_for_terminal(run.recorder);
}

/// "109 tokens = 25 % of 436, 4x". A share is of the length that was asked for, so of a run that became shorter it says how long
/// it became; and of a run that lost nothing that it lost nothing.
std::string describe_kept(const RunRecord& run) {
  const int budget = run.policy.budget_tokens(run.n_positions);
  std::string text = budget > 0 ? describe_budget(budget, run.n_positions) : "";
  if (run.status == RunStatus::running || run.policy.name == "full") return text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (budget > 0 && run.n_tokens() < run.n_positions)
    add(std::to_string(run.n_positions) + " were asked for, the run ended after " + std::to_string(run.n_tokens()));
  if (!evicts_by(run, run.n_tokens())) add("nothing was evicted");
  return text;
}

}  // namespace

std::string describe_run(const RunRecord& run) {
  std::string text = run.model.name.empty() ? "model" : run.model.name;
  text += " (" + std::to_string(run.evict_at.n_layers()) + " layers × " + std::to_string(run.evict_at.n_kv_heads()) +
          " KV heads), " + std::to_string(run.n_tokens()) + " tokens, policy " + policy_of_run(run);
  if (const std::string gate = gate_of(run); !gate.empty()) text += " with gate " + gate;
  if (run.chunk > 0) text += ", acting after " + describe_chunk(run.chunk);
  if (const std::string kept = describe_kept(run); !kept.empty()) text += " (" + kept + ")";
  if (const std::string solved = describe_density(run.policy, run.thresholds()); !solved.empty())
    text += " (" + solved + ")";
  if (const std::string divided = describe_budgets(run.policy, run.heads); !divided.empty())
    text += " (" + divided + ")";
  if (const std::vector<std::int32_t> windows = run.model_windows(); !windows.empty())
    text += ", " + std::to_string(windows.size() - static_cast<std::size_t>(std::ranges::count(windows, 0))) + " of " +
            std::to_string(windows.size()) + " layers local by the model's design (window " +
            std::to_string(std::ranges::max(windows)) + ", in no mean)";
  for (const PolicyChange& change : run.changes)
    text += ", changed at query " + std::to_string(change.q) + " to " + change.policy.to_string();
  return text + recorded_by(run) + ".";
}

std::string describe_runs(std::span<const RunRecord* const> runs) {
  const auto same = [&](const auto& text_of) {
    return std::ranges::all_of(runs, [&](const RunRecord* run) { return text_of(*run) == text_of(*runs[0]); });
  };
  if (same(describe_run)) return describe_run(*runs[0]);
  const RunRecord& first = *runs[0];
  const auto [least, most] = std::ranges::minmax(runs, {}, &RunRecord::n_tokens);
  const std::string name = first.model.name.empty() ? "model" : first.model.name;
  const bool one_model = same([](const RunRecord& run) { return run.model.name; });
  std::string text = name + (one_model ? "" : " and others") + " (" + std::to_string(first.evict_at.n_layers()) +
                     " layers × " + std::to_string(first.evict_at.n_kv_heads()) + " KV heads), " +
                     std::to_string(least->n_tokens());
  if (least->n_tokens() < most->n_tokens()) text += " to " + std::to_string(most->n_tokens());
  std::set<std::string> policies;
  for (const RunRecord* run : runs) policies.insert(run->policy.to_string());
  text += " tokens, ";
  text += policies.size() == 1 ? "policy " : std::to_string(policies.size()) + " policies, the first ";
  return text + policy_of_run(first) + (same(recorded_by) ? recorded_by(first) : "") + ".";
}

std::string describe_own_oracle(std::span<const RunRecord* const> runs, Metric metric, std::int32_t q) {
  const auto info = std::ranges::find(metric_list(), metric, &MetricInfo::metric);
  if (!info->needs_oracle) return {};
  if (runs.size() > 1) return " Each is judged by its own oracle.";
  const Oracle oracle(*runs[0]);
  q = resolve_query(*runs[0], q);
  const bool of_queries = metric == Metric::mean_recall || metric == Metric::above_chance;
  const OracleMean mean = of_queries ? mean_of(oracle, q) : mean_at(oracle, q);
  return mean.n == 0 ? "" : " Own oracle, " + k_text(mean) + ".";
}

std::string describe_preview(bool preview) {
  return preview ? " Preview: lifetimes recomputed from the recorded scores, without running the model." : "";
}

std::int32_t resolve_query(const RunRecord& run, std::int32_t q) {
  if (run.n_tokens() == 0 || run.evict_at.empty()) {
    throw Error({ExitCode::bad_input, run.model.name, "run", "no tokens", "a run with at least one token", ""});
  }
  return q < 0 || q >= run.n_tokens() ? run.n_tokens() - 1 : q;
}

std::string describe_ended(std::span<const RunRecord* const> a_and_b, std::int32_t q) {
  std::string text;
  const char* name = " A";
  for (const RunRecord* run : a_and_b) {
    if (q >= run->queries())
      text += std::string(name) + " is at its last query, " + std::to_string(run->queries() - 1) + ".";
    name = " B";
  }
  return text;
}

std::int32_t lifetime_of(const RunRecord& run, int layer, int kv_head, std::int32_t t) {
  const auto& row = run.evict_at.row(layer, kv_head);
  return static_cast<std::size_t>(t) < row.size() ? row[t] : kUndecided;
}

}  // namespace kvscope::views
