#pragma once
// What a run was asked for, as the text that a trace keeps.

#include <string>
#include <string_view>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// One JSON object: key, request, by_text, origin, gates. What the run has itself is not written again: a prompt that is
/// prompt_text, and token ids that are the run's first (a number says how many). Empty if the run does not record it.
std::string asked_text(const RunRecord& run);
/// The inverse, for a run that has its ids, prompt_len, prompt_text and thresholds. Throws Error that names the field.
Asked asked_of_text(const RunRecord& run, std::string_view text);

}  // namespace kvscope
