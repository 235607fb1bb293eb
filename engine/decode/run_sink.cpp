#include "engine/decode/run_sink.h"

#include <utility>

#include "engine/core/record/assemble.h"

namespace kvscope::engine {

RunSink sink_into(RunRecord& record) {
  RunSink sink;
  sink.started = [&record](RunStarted started) { begin_run(record, std::move(started)); };
  sink.step = [&record](StepFacts facts) { apply(record, std::move(facts)); };
  sink.oracle = [&record](OracleFacts facts) { apply(record, std::move(facts)); };
  sink.output_error = [&record](OutputErrorFacts facts) { apply(record, std::move(facts)); };
  sink.policy_changed = [&record](const PolicyChange& change) { apply(record, change); };
  return sink;
}

}  // namespace kvscope::engine
