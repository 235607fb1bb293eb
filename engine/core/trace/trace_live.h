#pragma once
// A trace that is being written: runs are added and committed, one by one or several at once, then packed.

#include <filesystem>

#include "engine/core/support/file.h"
#include "engine/core/trace/prepared_run.h"
#include "engine/core/trace/trace_layout.h"

namespace kvscope::trace {

/// The file at `path` from its first row to its last. Once it stands under its name it opens in any HDF5 reader at any
/// moment, kill -9 included, with every committed run whole: all metadata are flushed before the first row, and rows
/// are flushed and synced before `committed` counts them. It may be read while it grows.
///
/// Where a file is to be replaced, the name passes to the new one with its first run, so that what cannot even begin
/// leaves the old one.
///
/// After a write error the file is never closed (closing is what would damage it) and takes no more runs.
class LiveTrace {
 public:
  /// Room for heading.planned_runs runs with `positions` tokens together. `replace` false: an existing `path` is an
  /// Error. All constructors and functions throw kvscope::Error.
  LiveTrace(const std::filesystem::path& path, const Heading& heading, std::int64_t positions, bool replace);
  /// Goes on with the trace at `path`, which must have this heading: a partial one in place, if it has the room; else
  /// its runs are copied to a new file that takes its name when it has them all. `lock` is lock_trace()'s of it.
  static LiveTrace resume(const std::filesystem::path& path, const Heading& heading, std::int64_t positions,
                          FileHandle lock);
  ~LiveTrace();
  LiveTrace(const LiveTrace&) = delete;
  LiveTrace& operator=(const LiveTrace&) = delete;

  /// Where the next run comes.
  trace::RunPlace place() const { return {filled_, written_}; }
  /// Writes the run after the others. It counts once commit() has returned.
  void append(const PreparedRun& prepared);
  /// Two waits for the disk, however many runs were appended.
  void commit();
  void add(const RunRecord& run) {
    append(PreparedRun(run, place()));
    commit();
  }
  int committed() const { return committed_; }
  const std::filesystem::path& path() const { return path_; }

  /// Writes the packed file to a temporary name beside `target`, syncs, renames over it; without `replace` a file that has come
  /// there meanwhile is an Error (resource). This file stays as it is.
  void pack(const std::filesystem::path& target, bool replace = true) const;
  void close();

 private:
  struct Resumed;  // a valid trace, locked, and how far it is filled
  LiveTrace(Resumed resumed, const Heading& heading, std::int64_t positions);
  void renew(Resumed resumed);
  void create(bool replace, const OpenTrace* before);
  void take_name(bool replace);
  void drop_temporary();
  void make_room(const RunBlock& block);
  void check_capacity(const RunBlock& block) const;
  [[noreturn]] void give_up(const H5Error& error);

  std::filesystem::path path_, temporary_;  // temporary_: its name until it has path_
  Heading heading_;
  Extents capacity_, filled_;
  FileHandle replaced_;  // lock of the file at path_ that this one is to replace
  FileHandle lock_;      // while it is held nobody else writes this file
  OpenTrace trace_;
  int written_ = 0, committed_ = 0;
  int named_with_ = 1;  // it takes its name with so many runs
  bool broken_ = false;
};

/// Copies rows 0 ... filled of every dataset. H5Error.
void copy_rows(const OpenTrace& from, const OpenTrace& to, const Extents& filled);
/// A new complete trace at `path` with these rows of `from`, and its summary. H5Error.
void write_packed(const OpenTrace& from, const Extents& filled, const Heading& heading, const std::string& path);
/// /summary/density as NXdata, the plot that viewers open by default. Axes are hard links to those of /heads. H5Error.
void write_summary(const OpenTrace& trace, const Extents& filled);

/// A name beside `path` that no other process uses: ".trace.h5.1234.live".
std::filesystem::path temporary_name(const std::filesystem::path& path, const char* tag);

/// Removes what processes that are gone left beside `path` under temporary names.
void remove_leftovers(const std::filesystem::path& path);

/// lock_trace() of a file that is to be replaced: a capture that writes it must not lose it. Nothing if there is none.
FileHandle lock_if_there(const std::filesystem::path& path);

}  // namespace kvscope::trace
