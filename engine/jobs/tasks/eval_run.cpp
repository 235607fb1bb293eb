#include "engine/jobs/tasks/eval_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/core/support/seconds_since.h"
#include "engine/decode/forced_pass.h"
#include "engine/decode/run.h"

namespace kvscope::engine {
namespace {

void refuse_cancelled(const RunRecord& record) {
  if (record.status == RunStatus::cancelled) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
}

EvalAnswer facts_of(const RunRecord& record, const EvalMeasures& measures) {
  EvalAnswer answer;
  answer.density = mean(head_metric(record, Metric::density, record.queries() - 1));
  if (!record.reads.empty()) answer.read_share = mean(head_metric(record, Metric::read_share, record.queries() - 1));
  answer.cache_size = mean_cache_size(record);
  answer.cache_size_end = mean(head_metric(record, Metric::cache_share, record.queries() - 1));
  answer.cache_tokens = answer.cache_size_end * record.queries();
  answer.window = record.geometry().window;
  const EvictionCount evictions = count_evictions(record);
  answer.evicted = evictions.tokens;
  answer.triggers = evictions.queries;
  answer.overflows = evictions.overflows;
  if (measures.oracle) {
    const OracleMean oracle = mean_of(Oracle(record));
    answer.recall = oracle.recall;
    answer.mass_recall = oracle.mass_recall;
  }
  if (measures.output_error) answer.output_error = mean_output_error(record);
  return answer;
}

std::string answer_text(const LoadedModel& model, const RunRecord& record) {
  std::vector<std::int32_t> ids(record.ids.begin() + record.prompt_len, record.ids.end());
  while (!ids.empty() && model.tokenizer().is_special(ids.back())) ids.pop_back();
  return model.tokenizer().decode_further(ids);
}

}  // namespace

RunRequest run_of(const PolicySpec& policy, const TaskQuestion& question, const SamplingSpec& sampling,
                  const EvalMeasures& measures) {
  RunRequest request{.prompt_ids = question.prompt, .policy = policy, .max_tokens = question.max_tokens};
  request.sampling = sampling;
  request.oracle = measures.oracle;
  request.oracle_looks = false;
  request.output_error = measures.output_error;
  return request;
}

RunRequest run_of_choice(const PolicySpec& policy, const TaskQuestion& question, std::size_t choice,
                         const EvalMeasures& measures) {
  RunRequest request = run_of(policy, question, {}, measures);
  request.answer_ids = question.choices[choice].ids;
  return request;
}

double mean_logprob(const RunRecord& record) {
  const auto first = record.logprobs.begin() + record.prompt_len;
  return std::accumulate(first, record.logprobs.end(), 0.0) / static_cast<double>(record.logprobs.end() - first);
}

EvalAnswer answer_of(const LoadedModel& model, std::span<const RunRecord> records, const Task& task,
                     const TaskQuestion& question, const EvalMeasures& measures) {
  for (const RunRecord& record : records) refuse_cancelled(record);
  const auto best = std::ranges::max_element(records, {}, mean_logprob);
  EvalAnswer answer = facts_of(*best, measures);
  answer.expected = question.expected;
  answer.answer = question.choices.empty() ? answer_text(model, *best)
                                           : question.choices[static_cast<std::size_t>(best - records.begin())].text;
  const double mark = task.mark_of(question.expected, answer.answer);
  answer.is_right = mark == 1;
  if (task.share != nullptr) answer.share = mark;
  for (const RunRecord& record : records) {
    answer.tokens += record.timings.decode_steps;
    answer.seconds += record.timings.decode_s;
  }
  return answer;
}

EvalAnswer read_piece(const LoadedModel& model, const PolicySpec& policy, const std::vector<std::int32_t>& ids,
                      int chunk, const EvalMeasures& measures, const Hooks& hooks) {
  const auto start = std::chrono::steady_clock::now();
  RunRequest request = forced_request(model, {.ids = ids, .policy = policy, .chunk = chunk});
  request.oracle = measures.oracle;
  request.output_error = measures.output_error;
  const RunRecord record = record_run(model, request, hooks, true);
  refuse_cancelled(record);
  EvalAnswer answer = facts_of(record, measures);
  answer.is_text = true;
  answer.nll = mean_nll(record.logprobs);
  answer.tokens = static_cast<int>(ids.size());
  answer.seconds = seconds_since(start);
  return answer;
}

}  // namespace kvscope::engine
