#pragma once
// A trace that is being written: runs are added and committed one by one, then packed.

#include <filesystem>

#include "engine/core/support/file.h"
#include "engine/core/trace/trace_layout.h"

namespace kvscope::trace {

/// The file at `path` from its first row to its last. Once it stands under its name it opens in any HDF5 reader at any
/// moment, kill -9 included, with every committed run whole: all metadata are flushed before the first row, and rows
/// are flushed and synced before `committed` counts them. It may be read while it grows.
///
/// After a write error the file is never closed (closing is what would damage it) and takes no more runs.
class LiveTrace {
 public:
  /// Room for heading.planned_runs runs with `positions` tokens together. `replace` false: an existing `path` is an
  /// Error. All constructors and functions throw kvscope::Error.
  LiveTrace(const std::filesystem::path& path, const Heading& heading, std::int64_t positions, bool replace);
  /// Goes on with the trace at `path`, which must have this heading: a partial one in place, if it has the room; else
  /// its runs are copied to a new file that takes its name when it has them all.
  static LiveTrace resume(const std::filesystem::path& path, const Heading& heading, std::int64_t positions);
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
  struct Resumed;  // a valid trace, locked, and how far it is filled
  LiveTrace(Resumed resumed, const Heading& heading, std::int64_t positions);
  void create(bool replace, const OpenTrace* before);
  void make_room(const RunBlock& block);
  void check_capacity(const RunBlock& block) const;
  [[noreturn]] void give_up(const H5Error& error);

  std::filesystem::path path_;
  Heading heading_;
  Extents capacity_, filled_;
  FileHandle lock_;  // while it is held nobody else writes this file
  OpenTrace trace_;
  int committed_ = 0;
  bool broken_ = false;
};

/// Copies rows 0 ... filled of every dataset. H5Error.
void copy_rows(const OpenTrace& from, const OpenTrace& to, const Extents& filled);
/// A new complete trace at `path` with these rows of `from`, and its summary. H5Error.
void write_packed(const OpenTrace& from, const Extents& filled, const Heading& heading, const std::string& path);
/// /summary/density as NXdata, the plot that viewers open by default. Axes are hard links to those of /heads. H5Error.
void write_summary(const OpenTrace& trace, const Extents& filled);

/// `path` with links resolved, once it is sure that a file may be put there. Throws Error: no such folder, a folder or
/// device of that name, a file of that name without `replace`.
std::filesystem::path writable_target(const std::filesystem::path& path, bool replace);

/// A name beside `path` that no other process uses: ".trace.h5.1234.live".
std::filesystem::path temporary_name(const std::filesystem::path& path, const char* tag);

/// Removes what processes that are gone left beside `path` under temporary names.
void remove_leftovers(const std::filesystem::path& path);

/// Takes the right to write the file that is now at `path`; the handle keeps it. Throws Error (resource): another
/// process has it. On file systems without locks it always succeeds.
FileHandle lock_file(const std::filesystem::path& path);

/// rename() that syncs the folder afterwards; without `replace` an existing target is an Error.
void rename_into_place(const std::filesystem::path& from, const std::filesystem::path& to, bool replace);

}  // namespace kvscope::trace
