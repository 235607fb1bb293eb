#include "engine/decode/run.h"

#include "engine/core/record/assemble.h"
#include "engine/core/support/text.h"
#include "engine/decode/eviction/active_policy.h"

namespace kvscope::engine {

PolicySpec resolved_policy(const PolicySpec& policy, const LoadedModel& model) {
  return ActivePolicy::resolved(policy, model);
}

RunEnded execute_run(const LoadedModel& model, const RunRequest& request, const RunSink& sink) {
  RunInFlight run(model, request, sink);
  run.prefill();
  while (run.begin_step()) run.end_step(run.generation().step());
  return run.finish();
}

RunRecord empty_record(const LoadedModel& model, const RunRequest& request) {
  RunRecord record;
  record.model = model.info();
  record.sampling = request.sampling;
  record.prompt_text = request.prompt;
  record.started_utc = utc_now();
  return record;
}

RunRecord record_run(const LoadedModel& model, const RunRequest& asked, const Hooks& hooks, bool prompt_logprobs) {
  RunRequest request = asked;
  request.oracle_looks = false;
  RunRecord record = empty_record(model, request);
  RunSink sink = sink_into(record);
  sink.prompt_logprobs = prompt_logprobs;
  sink.hooks = hooks;
  end_run(record, execute_run(model, request, sink));
  return record;
}

}  // namespace kvscope::engine
