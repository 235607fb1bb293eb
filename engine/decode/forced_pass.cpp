#include "engine/decode/forced_pass.h"

#include <algorithm>
#include <limits>

#include "engine/core/record/assemble.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/decode/eviction/active_policy.h"
#include "engine/decode/eviction/slot_cache.h"
#include "engine/decode/run.h"

namespace kvscope::engine {
namespace {

/// Whether a prompt under the policy is the same as its tokens one by one (tests/engine/conformance_test.cpp holds
/// policies to it), so that one pass will do for prompt and answer.
bool reads_all_alike(const LoadedModel& model, const ScoreRequest& request) {
  const PolicySpec policy = ActivePolicy::resolved(request.policy, model);
  const RetentionPlan plan = policy_of(policy).plan(policy, {.top_k = 1});
  if (plan.density > 0 || plan.allocation.by_score()) return false;  // solved on the prompt, which must be one then
  return plan.follows_from_scores() && !plan.dense_prefill && plan.selection.tokens == 0 && request.changes.empty();
}

/// Whether every query that a log-probability is of saw and read every token before it. The last is of none: nothing
/// follows it.
bool hides_nothing(const RunRecord& run) {
  const std::int32_t last = run.n_tokens() - 1;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      const auto& row = run.evict_at.row(layer, head);
      if (std::any_of(row.begin(), row.end(), [&](std::int32_t at) { return at < last; })) return false;
    }
  }
  // Nothing left, so that slots are positions.
  return std::all_of(run.reads.begin(), run.reads.end(), [&](const PageRead& read) {
    return read.q >= last || static_cast<int>(read.pages.size()) > read.q / kPageSize;
  });
}

}  // namespace

double mean_nll(const std::vector<float>& logprobs) {
  double sum = 0;
  for (std::size_t i = 1; i < logprobs.size(); ++i) sum -= logprobs[i];
  return logprobs.size() > 1 ? sum / static_cast<double>(logprobs.size() - 1)
                             : std::numeric_limits<double>::quiet_NaN();
}

RunRequest forced_request(const LoadedModel& model, const ScoreRequest& request) {
  RunRequest run{.prompt = request.text, .prompt_ids = request.ids, .policy = request.policy};
  const int n = static_cast<int>(request.ids.size());
  run.max_tokens = request.n_positions > 0 ? request.n_positions - n : 0;
  run.oracle = request.oracle.has_value();
  run.oracle_spec = request.oracle.value_or(OracleSpec{});
  run.output_error = request.output_error;
  run.stop_at_eos = false;
  run.changes = request.changes;
  run.thresholds = request.thresholds;
  run.budgets = request.budgets;
  if (request.prompt_len == 0) {
    run.chunk = request.chunk;
    run.chunk = chunk_of_run(model, run);
    return run;
  }
  if (request.prompt_len > n) {
    throw Error({.code = ExitCode::usage,
                 .file = "prompt_len",
                 .found = std::to_string(request.prompt_len),
                 .expected = "at most the text's " + std::to_string(n) + " tokens"});
  }
  if (reads_all_alike(model, request)) {
    run.answer_ids.emplace();
    return run;
  }
  run.prompt_ids.resize(static_cast<std::size_t>(request.prompt_len));
  run.answer_ids = {request.ids.begin() + request.prompt_len, request.ids.end()};
  run.max_tokens += n - request.prompt_len;
  return run;
}

ScoreFacts forced_pass(const LoadedModel& model, const ScoreRequest& request, const Hooks& hooks) {
  RunRecord record;
  record.model = model.info();
  RunRequest forced = forced_request(model, request);
  forced.oracle_looks = false;
  ScoreFacts out{.prompt_len = request.prompt_len, .chunk = forced.chunk};
  RunSink sink = sink_into(record);
  sink.hooks = hooks;
  if (request.choices) {
    out.greedy = {-1};
    sink.greedy = &out.greedy;
  }
  const RunEnded ended = execute_run(model, forced, sink);
  if (ended.status == RunStatus::cancelled) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
  end_run(record, ended);
  out.dense = hides_nothing(record);
  out.policy = record.policy;
  out.thresholds = record.thresholds();
  out.nll = mean_nll(record.logprobs);
  out.density = head_metric(record, Metric::density, record.queries() - 1).values;
  out.cache_size = mean_cache_size(record);
  if (request.oracle) {
    const OracleMean mean = mean_of(Oracle(record));
    out.quality = {.recall = mean.recall, .chance = mean.chance, .mass_recall = mean.mass_recall};
  }
  out.quality.output_error = mean_output_error(record);
  out.ids = std::move(record.ids);
  out.logprobs = std::move(record.logprobs);
  return out;
}

}  // namespace kvscope::engine
