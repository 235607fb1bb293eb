#pragma once
// Runs of older versions of the format: what their files mean by now, and what is written into a file that keeps its
// version.

#include "engine/core/record/run_record.h"

namespace kvscope::trace {

/// Makes of a run as a file of that version has it one of this version.
void upgrade(RunRecord& run, int version);
/// The way back, for a file of that version.
RunRecord downgraded(RunRecord run, int version);
/// What a file of that version has of numbers that were made by other definitions than today's; empty if nothing.
std::string old_numbers(int version);

}  // namespace kvscope::trace
