#pragma once
// One question, or one piece of a text, under one policy.

#include <span>

#include "engine/core/study/measure/evaluation.h"
#include "engine/decode/generation.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {

/// What is asked beside the answer itself. Each costs a pass.
struct EvalMeasures {
  bool oracle = false, output_error = false;
};

/// The run of a question, until the answer's tokens are there or the model ends its text.
RunRequest run_of(const PolicySpec& policy, const TaskQuestion& question, const SamplingSpec& sampling,
                  const EvalMeasures& measures);

/// The run of a question with one of its choices as the answer.
RunRequest run_of_choice(const PolicySpec& policy, const TaskQuestion& question, std::size_t choice,
                         const EvalMeasures& measures);
/// The sum of the log-probabilities of the answer's tokens / their number.
double mean_logprob(const RunRecord& record);

/// What came of it: of one run, or of a run for each choice. The answer is then the choice with the greatest mean_logprob(), the
/// first of equals, and cache and measures are those of its run. Item, policy and index are the caller's. Throws Error
/// (cancelled) for a run that was cancelled.
EvalAnswer answer_of(const LoadedModel& model, std::span<const RunRecord> records, const Task& task,
                     const TaskQuestion& question, const EvalMeasures& measures);

/// Reads the tokens under the policy, teacher-forced, as forced_pass() does: nll is that of ScoreFacts. Throws Error (cancelled)
/// when the hook says so.
EvalAnswer read_piece(const LoadedModel& model, const PolicySpec& policy, const std::vector<std::int32_t>& ids,
                      int chunk, const EvalMeasures& measures, const Hooks& hooks);

}  // namespace kvscope::engine
