#pragma once
// An evaluation as a study: the table that a sweep of the same policies has.

#include <span>

#include "engine/core/study/measure/evaluation.h"
#include "engine/core/study/table/study_table.h"

namespace kvscope::app {

/// The columns and arrays of a sweep, but for those that a recipe fills: gate, curve, series and axes. One result for each
/// length; their rows follow each other.
StudyTable eval_study(const EvalRequest& request, std::span<const EvalResult> results);

}  // namespace kvscope::app
