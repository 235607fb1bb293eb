#include "engine/decode/oracle_pass.h"

#include <algorithm>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/support/error.h"
#include "engine/decode/dense_teacher.h"
#include "engine/decode/eviction/active_policy.h"
#include "engine/decode/generation.h"
#include "engine/scorer/make_scorer.h"

namespace kvscope::engine {
namespace {

[[noreturn]] void cancelled() { throw Error({.code = ExitCode::cancelled, .found = "cancelled"}); }

/// Prompt and answer of a full cache.
std::vector<std::int32_t> dense_text(const LoadedModel& model, RunRequest request, std::vector<std::int32_t> prompt,
                                     const Hooks& hooks) {
  request.prompt_ids = std::move(prompt);
  request.policy = PolicySpec::parse("full");
  request.changes.clear();
  request.answer_ids.reset();
  Generation dense(model, request);
  dense.set_recording(false);
  dense.prefill(hooks, {.logprobs = false});
  while (!dense.finished()) {
    if (hooks.is_cancelled()) cancelled();
    dense.step();
  }
  return dense.ids();
}

}  // namespace

HeadSeries<float> oracle_targets(const LoadedModel& model, std::span<const std::int32_t> ids, const OracleSpec& spec,
                                 int window, const Hooks& hooks) {
  DenseTeacher teacher(model, static_cast<int>(ids.size()), window, spec);
  if (!teacher.absorb(ids, hooks.cancelled)) cancelled();
  // A record in which nothing is evicted, for whoever makes targets of what was seen.
  RunRecord seen;
  seen.model = model.info();
  seen.policy = PolicySpec::parse("streaming:sinks=0,window=" + std::to_string(window));
  seen.ids.assign(ids.begin(), ids.end());
  seen.n_positions = seen.n_tokens();
  seen.status = RunStatus::complete;
  seen.oracle = spec;
  seen.oracle_horizon = teacher.horizon();
  seen.evict_at = LifetimeMap(seen.model.n_layers, seen.model.n_kv_heads);
  FutureAttention future = teacher.future();
  seen.future_mass = std::move(future.mass);
  seen.future = std::move(future.kinds);
  const Oracle oracle(seen, spec);
  HeadSeries<float> targets(seen.model.n_layers, seen.model.n_kv_heads);
  for (int layer = 0; layer < seen.model.n_layers; ++layer) {
    for (int head = 0; head < seen.model.n_kv_heads; ++head) {
      const std::vector<double> exact = oracle.targets(layer, head);
      targets.row(layer, head).assign(exact.begin(), exact.end());
    }
  }
  return targets;
}

std::shared_ptr<const TokenScorer> oracle_scorer(const LoadedModel& model, const RunRequest& request,
                                                 std::vector<std::int32_t> prompt, int n_positions,
                                                 const Hooks& hooks) {
  // What goes by a gate may not have its window yet, and no geometry before that.
  const RetentionPlan plan = policy_of(request.policy).plan(request.policy, {});
  if (plan.source != ScoreSource::future) return nullptr;
  const RetentionGeometry geometry = request.policy.geometry(n_positions);
  if (request.draws() && request.max_tokens > 0) {
    prompt = dense_text(model, request, std::move(prompt), hooks);
  } else if (request.answer_ids) {
    prompt.insert(prompt.end(), request.answer_ids->begin(), request.answer_ids->end());
  }
  OracleSpec spec;
  spec.mass = static_cast<OracleMass>(plan.oracle_mass);
  spec.weight = static_cast<OracleWeight>(plan.oracle_weight);
  spec.all_kinds = false;
  const HeadSeries<float> targets = oracle_targets(model, prompt, spec, geometry.window, hooks);
  const auto n = static_cast<std::int64_t>(prompt.size());
  at::Tensor table = at::empty({targets.n_layers(), targets.n_kv_heads(), n}, at::kFloat);
  float* out = table.data_ptr<float>();
  for (int layer = 0; layer < targets.n_layers(); ++layer) {
    for (int head = 0; head < targets.n_kv_heads(); ++head) out = std::ranges::copy(targets.row(layer, head), out).out;
  }
  return make_table_scorer(table, model.config(), model.weights());
}

}  // namespace kvscope::engine
