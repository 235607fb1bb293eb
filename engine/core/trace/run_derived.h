#pragma once
// Columns that follow from the rest of a run, for readers in other languages: they need not parse policies then. This
// program computes such numbers itself, from the record, and never shows what a file says of them.

#include "engine/core/trace/run_block.h"

namespace kvscope::trace {

void encode_derived(RunBlock& block, const RunRecord& run);

/// `run` is what the block's other columns say. Throws Error if these columns are out of their range, or contradict it:
/// geometry and density are counted again, of a file of this version and a run that ended well. Whoever changes how
/// one of them follows from a run raises kVersion.
void check_derived(const RunBlock& block, const RunRecord& run, const std::string& file);

}  // namespace kvscope::trace
