#pragma once
// Where the rows of runs stand in a valid trace, and the rows as columns. What the columns mean is checked by
// decode_run().

#include "engine/core/support/refuse.h"
#include "engine/core/trace/run_block.h"
#include "engine/core/trace/trace_validate.h"

namespace kvscope::trace {

/// Where the parts of a committed run stand. Throws Error: (usage) there is no such run, (bad input) a span lies outside
/// the file's axes.
Slice run_slice(const ValidTrace& valid, int run_index);

/// How far each axis is filled by the committed runs. Throws Error if a span lies outside the file's axes.
Extents filled_of(const ValidTrace& valid);

/// What HDF5 refuses while a run is read, as an Error of the file.
template <typename Read>
auto reading(const ValidTrace& valid, int run, Read read) {
  try {
    return read();
  } catch (const H5Error& error) {
    refuse(valid.file, "run " + std::to_string(run) + ", " + error.action(), error.reason(), "a whole KVScope trace");
  }
}

/// The columns of run `run_index`. Throws Error (usage) if there is no such run, (bad input) if its spans lie outside
/// the file's axes or it is larger than kMaxRunBytes.
RunBlock read_run(const ValidTrace& valid, int run_index);

}  // namespace kvscope::trace
