#pragma once
// Where the rows of runs stand in a valid trace, and the rows as columns. What the columns mean is checked by
// decode_run().

#include <map>

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
    throw error.of_damage(valid.file, "trace", "run " + std::to_string(run) + ", ");
  }
}

/// The runs of a trace as columns.
class RunReader {
 public:
  explicit RunReader(const std::filesystem::path& path);
  const ValidTrace& valid() const { return valid_; }

  /// Where run `run_index` stands; its columns are empty. Throws Error (usage) if there is no such run, (bad input) if
  /// its spans lie outside the file's axes or it is larger than kMaxRunBytes.
  RunBlock find(int run_index);
  /// Fills a column of the run that was found last, in the order of the format; one that is_padding() stays empty.
  /// Throws Error if the run becomes larger than a file of this size may hold.
  void read(RunBlock& block, const DatasetSchema& dataset);

 private:
  const ValidTrace& shard(int number);

  ValidTrace valid_;
  std::map<int, ValidTrace> shards_;    // of a merged trace, those that are open
  const ValidTrace* source_ = nullptr;  // of the rows that are virtual in a merged trace, and where they begin there
  Extents source_begin_;
  std::uint64_t held_ = 0;  // bytes of the columns that were read
};

}  // namespace kvscope::trace
