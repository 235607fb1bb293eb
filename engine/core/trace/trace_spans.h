#pragma once
// Where the rows of runs stand in a valid trace.

#include "engine/core/support/refuse.h"
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

}  // namespace kvscope::trace
