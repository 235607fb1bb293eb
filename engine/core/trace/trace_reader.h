#pragma once
// Rows out of a valid trace, as columns. What the columns mean is checked by decode_run().

#include "engine/core/trace/run_block.h"
#include "engine/core/trace/trace_validate.h"

namespace kvscope::trace {

/// The columns of run `run_index`. Throws Error (usage) if there is no such run, (bad input) if its spans lie outside
/// the file's axes or it is larger than kMaxRunBytes.
RunBlock read_run(const ValidTrace& valid, int run_index);

}  // namespace kvscope::trace
