#pragma once
// After how many tokens of its text the policy of a run acts.

#include <string>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// RunRequest::chunk as the run's command line has it (`--chunk N`); 0: it acts as it decodes, behind the prompt.
int chunk_of(const RunRecord& run);
/// "each token", "every 16 tokens", "the prompt, then each token".
std::string describe_chunk(int chunk);

}  // namespace kvscope
