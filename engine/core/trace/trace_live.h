#pragma once
// A trace that is being written: runs are added and committed one by one, then packed.

#include <filesystem>

#include "engine/core/trace/trace_layout.h"

namespace kvscope::trace {

/// The file at `path` from its first row to its last. Once it stands under its name it opens in any HDF5 reader at any
/// moment, kill -9 included, with every committed run whole: all metadata are flushed before the first row, and rows
/// are flushed and synced before `committed` counts them. It may be read while it grows.
///
/// After a write error the file is never closed (closing is what would damage it) and takes no more runs.
class LiveTrace {
 public:
  struct Capacity {
    int runs = 1;
    std::int64_t positions = 0;  // of all runs together
  };
  /// `replace` false: an existing `path` is an Error. All constructors and functions throw kvscope::Error.
  LiveTrace(const std::filesystem::path& path, const ModelInfo& model, Capacity capacity, bool replace);
  ~LiveTrace();
  LiveTrace(const LiveTrace&) = delete;
  LiveTrace& operator=(const LiveTrace&) = delete;

  void add(const RunRecord& run);
  int committed() const { return committed_; }
  const std::filesystem::path& path() const { return path_; }

  /// Writes the packed file to a temporary name beside `target`, syncs, renames over it. This file stays as it is.
  void pack(const std::filesystem::path& target) const;
  void close();

 private:
  void check_capacity(const RunBlock& block) const;
  [[noreturn]] void give_up(const H5Error& error);

  std::filesystem::path path_;
  ModelInfo model_;
  int planned_runs_;
  Extents capacity_, filled_;
  OpenTrace trace_;
  int committed_ = 0;
  bool broken_ = false;
};

/// Copies rows 0 ... filled of every dataset of `from` into a new complete trace at `path`, with its summary. H5Error.
void write_packed(const OpenTrace& from, const Extents& filled, const ModelInfo& model, int planned_runs,
                  const std::string& path);

/// `path` with links resolved, once it is sure that a file may be put there. Throws Error: no such folder, a folder or
/// device of that name, a file of that name without `replace`.
std::filesystem::path writable_target(const std::filesystem::path& path, bool replace);

/// A name beside `path` that no other process uses: ".trace.h5.1234.live".
std::filesystem::path temporary_name(const std::filesystem::path& path, const char* tag);

/// rename() that syncs the folder afterwards; without `replace` an existing target is an Error.
void rename_into_place(const std::filesystem::path& from, const std::filesystem::path& to, bool replace);

}  // namespace kvscope::trace
