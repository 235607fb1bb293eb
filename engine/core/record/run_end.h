#pragma once
#include <cstdint>
#include <string>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// "complete", "complete after 66 of at most 436 tokens, 36 of them the prompt", "cancelled after 37 of 436 tokens, 36 of
/// them the prompt", "failed after 37 of 436 tokens, 36 of them the prompt: out of memory".
std::string describe_end(const RunRecord& run);
/// Whether query q misses a token in a head whose layer is not local by the model's design.
bool evicts_by(const RunRecord& run, std::int32_t q);

}  // namespace kvscope
