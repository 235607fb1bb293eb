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
  RetentionGeometry of_head = geometry();
  if (!log_gamma.empty()) {
    of_head.log_gamma = log_gamma.at(static_cast<std::size_t>(layer) * model.n_kv_heads + kv_head);
  }
  return of_head;
}

RetentionPlan RunRecord::plan(int layer, int kv_head) const {
  RetentionPlan of_head = policy_of(policy).plan(policy, geometry(layer, kv_head));
  if (of_head.density > 0 && !thresholds.empty()) {
    of_head.threshold = thresholds.at(static_cast<std::size_t>(layer) * model.n_kv_heads + kv_head);
  }
  return of_head;
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
  const RetentionGeometry geometry = run.geometry();
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      decide(run.evict_at.row(layer, head), geometry, run.n_queries);
    }
  }
}

std::string describe_chunk(int chunk) {
  if (chunk == 0) return "the prompt, then each token";
  return chunk == 1 ? "each token" : "every " + std::to_string(chunk) + " tokens";
}

}  // namespace kvscope
