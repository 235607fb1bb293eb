#pragma once
// What each way to begin a run asks for. Session::start() begins it.

#include "app/session/next_run.h"
#include "app/session/runs.h"
#include "app/session/study_point.h"

namespace kvscope::app {

/// The prompt and the sampling of `run`, under the present policy.
Asked asked_again(const NextRun& next, const RunRecord& run);
/// Goes on from the tokens of the run up to query q, all of which are its prompt, under the present policy. A chat's template
/// is not written again. The engine reads all of it anew: it keeps no cache from run to run.
Asked asked_fork(const NextRun& next, const RunEntry& of, int q);
/// The tokens of the run, teacher-forced, under this policy: its prompt as a run has it, then its answer; the whole text
/// under the policy if there is no answer.
Asked asked_replay(const NextRun& next, const RunEntry& of, const PolicySpec& policy);
/// The text of a study's point, read under the point's policy.
Asked asked_point(const NextRun& next, const PointToRun& point);
/// The whole of a run that was cut off, and what its engine is asked for: the rest of it.
Asked asked_resume(const RunEntry& cut);
RunRequest rest_of(const RunRequest& begun, const RunRecord& cut);

}  // namespace kvscope::app
