#pragma once
// Columns that follow from the rest of a run, for readers in other languages: they need not parse policies then. This
// program computes such numbers itself, from the record, and never shows what a file says of them.

#include "engine/core/trace/run_block.h"

namespace kvscope::trace {

struct DerivedColumns {
  RetentionGeometry geometry;                                          // n_sink -1: none
  std::vector<float> density, recall, mass_recall, chance, mass_kept;  // [layers * kv_heads], NaN: not known
  std::vector<std::uint8_t> verdicts;                                  // [layers * kv_heads * tokens], verdict_code()
};

/// Most of the work of writing a run. It depends on no other run.
DerivedColumns derive(const RunRecord& run);

void encode_derived(RunBlock& block, const DerivedColumns& derived);

/// `run` is what the block's other columns say. Throws Error if these columns are out of their range, or contradict it:
/// geometry and density are counted again, of a file of this version and a run that ended well. Whoever changes how
/// one of them follows from a run raises kVersion.
void check_derived(const RunBlock& block, const RunRecord& run, const std::string& file);

}  // namespace kvscope::trace
