#pragma once
// A record from the facts of a run as they come. The same functions serve engine, window, command line and tests, so
// that all see the same run. Each fact is checked as a whole (check.h) before the record changes: one that does not fit
// throws and leaves the run as it was. An engine is not trusted to be well.

#include "engine/core/record/run_facts.h"

namespace kvscope {

/// `run` holds what its maker knows: model, sampling, prompt, command line.
void begin_run(RunRecord& run, RunStarted started);
void apply(RunRecord& run, StepFacts facts);
/// Of apply(), what a query sees: tokens, lifetimes, reads and rules. Without checks, scores and contests: for the engine,
/// whose own facts these are, and which has a device to keep busy.
void follow(RunRecord& run, const StepFacts& facts);
void apply(RunRecord& run, OracleFacts facts);
void apply(RunRecord& run, OutputErrorFacts facts);
void apply(RunRecord& run, PolicyChange change);
/// finish_run() of a run that has begun and has not ended.
void end_run(RunRecord& run, const RunEnded& ended);

}  // namespace kvscope
