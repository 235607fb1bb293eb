#include "engine/core/record/run_record.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/core/policy/policy.h"

namespace kvscope {

std::string_view to_string(RunStatus status) {
  switch (status) {
    case RunStatus::running:
      return "running";
    case RunStatus::complete:
      return "complete";
    case RunStatus::cancelled:
      return "cancelled";
    case RunStatus::failed:
      return "failed";
  }
  return "unknown";
}

namespace {

/// Same rule as running_top_k(): a sink is decided from the start, any other token when it has left the window.
void decide(std::vector<std::int32_t>& evict_at, const RetentionGeometry& geometry, int n_queries) {
  const int n_decided =
      std::min(static_cast<int>(evict_at.size()), std::max(geometry.n_sink, n_queries - geometry.window));
  for (int t = 0; t < n_decided; ++t) {
    if (evict_at[t] == kUndecided) evict_at[t] = kNever;
  }
}

}  // namespace

RetentionGeometry RunRecord::geometry(int layer, int kv_head) const {
  if (heads.empty()) return geometry();
  return with_rule(geometry(), heads.at(static_cast<std::size_t>(layer) * model.n_kv_heads + kv_head));
}

RetentionPlan RunRecord::plan(int layer, int kv_head) const {
  RetentionPlan of_head = policy_of(policy).plan(policy, geometry(layer, kv_head));
  if (of_head.density > 0 && !heads.empty()) {
    of_head.threshold = heads.at(static_cast<std::size_t>(layer) * model.n_kv_heads + kv_head).threshold;
  }
  return of_head;
}

bool RunRecord::is_local(int layer, int kv_head) const {
  return !heads.empty() && heads.at(static_cast<std::size_t>(layer) * model.n_kv_heads + kv_head).is_local();
}

bool RunRecord::is_local_by_model(int layer, int kv_head) const {
  return is_local(layer, kv_head) &&
         heads[static_cast<std::size_t>(layer) * model.n_kv_heads + kv_head].locality == Locality::model;
}

std::vector<std::int32_t> RunRecord::model_windows() const {
  std::vector<std::int32_t> windows;
  for (int layer = 0; !heads.empty() && layer < model.n_layers; ++layer)
    windows.push_back(is_local_by_model(layer, 0) ? geometry(layer, 0).window : 0);
  return std::ranges::any_of(windows, [](std::int32_t window) { return window > 0; }) ? windows
                                                                                      : std::vector<std::int32_t>();
}

std::vector<std::uint8_t> RunRecord::local_heads() const {
  const bool has_any =
      std::ranges::any_of(heads, [](const HeadRule& head) { return head.locality == Locality::policy; });
  if (heads.empty() || (!has_any && policy_of(policy).local_heads == nullptr)) return {};
  std::vector<std::uint8_t> out;
  for (const HeadRule& head : heads) out.push_back(head.locality == Locality::policy);
  return out;
}

std::vector<float> RunRecord::thresholds() const {
  std::vector<float> out;
  if (heads.empty() || policy_of(policy).plan(policy, geometry()).density == 0) return out;
  for (const HeadRule& head : heads) out.push_back(head.threshold);
  return out;
}

std::vector<float> RunRecord::log_gamma() const {
  std::vector<float> out;
  if (heads.empty()) return out;
  const auto of_policy = static_cast<float>(geometry().log_gamma);
  const auto differs = [&](const HeadRule& head) { return !head.is_local() && head.log_gamma != of_policy; };
  // A trace may have a decay of each head under a policy whose parameters name none.
  if (!has_learned_decay(policy) && std::ranges::none_of(heads, differs)) return out;
  for (const HeadRule& head : heads) out.push_back(head.log_gamma);
  return out;
}

std::vector<std::int32_t> RunRecord::budgets() const {
  std::vector<std::int32_t> out;
  if (heads.empty() || !policy_of(policy).info.has_budget) return out;
  const int of_policy = geometry().budget();
  const auto is_of_policy = [&](const HeadRule& head) {
    return head.locality == Locality::model || head.budget() == of_policy;
  };
  if (std::ranges::all_of(heads, is_of_policy)) return out;
  for (const HeadRule& head : heads) out.push_back(head.budget());
  return out;
}

std::vector<std::int32_t> RunRecord::budgets_to_repeat() const {
  const RetentionPlan plan = policy_of(policy).plan(policy, geometry());
  const bool at_end_of_prompt = plan.allocation.by_score() && plan.source != ScoreSource::gate;
  return at_end_of_prompt ? std::vector<std::int32_t>() : budgets();
}

const PolicySpec& RunRecord::policy_at(std::int32_t q) const {
  const auto last =
      std::ranges::find_if(changes.rbegin(), changes.rend(), [q](const PolicyChange& change) { return change.q <= q; });
  return last == changes.rend() ? policy : last->policy;
}

void fill_rows(RunRecord& run) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::size_t n = run.ids.size();
  if (n > 0 && run.evict_at.empty()) run.evict_at = LifetimeMap(run.model.n_layers, run.model.n_kv_heads);
  while (run.pieces.size() < n) run.pieces.push_back("");
  run.logprobs.resize(n, kNaN);
  run.scores.resize(n, kNaN);
  run.evict_at.resize(n, kUndecided);
  run.future_mass.resize(n, kNaN);
  visit_future(run.future, [&](const char*, HeadSeries<float>& series) { series.resize(n, kNaN); });
}

void finish_run(RunRecord& run, RunStatus status, std::string message) {
  run.status = status;
  run.message = std::move(message);
  fill_rows(run);
  if (run.ids.empty()) return;
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      decide(run.evict_at.row(layer, head), run.geometry(layer, head), run.n_queries);
    }
  }
}

std::string describe_chunk(int chunk) {
  if (chunk == 0) return "the prompt, then each token";
  return chunk == 1 ? "each token" : "every " + std::to_string(chunk) + " tokens";
}

}  // namespace kvscope
