#pragma once
// Runs of older versions of the format: what their files mean by now. None is written any more: a file that goes on, or is
// merged, becomes one of this version.

#include <string_view>

#include "engine/core/record/run_record.h"

namespace kvscope::trace {

/// The rule of heads whose file says nothing else of them: what the policy's parameters give.
HeadRule rule_before_7(const RunRecord& run);
/// Makes of a run as a file of that version has it one of this version. `command_line`: what the file has of it.
void upgrade(RunRecord& run, int version, std::string_view command_line);
/// What a file of that version has of numbers that were made by other definitions than today's; empty if nothing.
std::string old_numbers(int version);

}  // namespace kvscope::trace
