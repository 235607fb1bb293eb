#pragma once
// The schema as an HDF5 file: everything but rows is made here, in one go, and rows go in and out by slice.

#include <array>
#include <string>
#include <type_traits>

#include "engine/core/record/run_record.h"
#include "engine/core/trace/h5_handle.h"
#include "engine/core/trace/run_block.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_schema.h"
#include "engine/core/trace/trace_shards.h"

namespace kvscope::trace {

/// How the datasets of a file lie on disk.
enum class Storage {
  live,    // contiguous, allocated at creation, never filled: a write is a write in place, so nothing but it can tear
  packed,  // chunked, shuffle + deflate; small ones contiguous
  merged   // the same, but those of is_in_shards() virtual
};

/// What a file says of all its runs together.
struct Heading {
  ModelInfo model;
  CaptureInfo capture;
  int planned_runs = 1;
  ShardTable shards = {};  // of Storage::merged
};

/// Calls visit(name, member) for the fields of a CaptureInfo (const or not): the attributes of /capture.
template <typename Capture, typename Visit>
requires std::is_same_v<std::remove_const_t<Capture>, CaptureInfo>
void visit_fields(Capture& capture, Visit&& visit) {
  visit("n_prompts", capture.n_prompts);
  visit("shard", capture.shard);
  visit("n_shards", capture.n_shards);
  visit("prompts_hash", capture.prompts_hash);
  visit("request", capture.request);
}

/// An open trace: the file and its datasets. Throws H5Error from every function.
struct OpenTrace {
  H5Id file, committed;
  std::array<H5Id, kDatasets> datasets;  // those of its version
  int version = kVersion;
  hid_t operator[](Dataset id) const { return datasets[static_cast<int>(id)]; }
  /// Gives everything up without closing it (see RAII note in h5_handle.h): for files that could not be written.
  void leak();
};

/// Creates `path` (which must not exist) with every group, dataset and attribute, committed = 0.
OpenTrace create_trace(const std::string& path, const Heading& heading, const Extents& extents, Storage storage);

/// Opens a partial trace to write more rows. Its layout must have been checked before (open_valid).
OpenTrace reopen_trace(const std::string& path);

/// Writes or reads the part of a dataset that begins at `begin` and is `count` long on each axis, row-major.
void write_part(const OpenTrace& trace, Dataset id, const Extents& begin, const Extents& count, const void* data);
void read_part(const OpenTrace& trace, Dataset id, const Extents& begin, const Extents& count, void* data);

void write_committed(const OpenTrace& trace, std::int64_t n_runs);

inline constexpr std::int64_t kChunkTarget = 1 << 18;  // bytes of a chunk

/// Length of a chunk along each dimension of `dataset`; 0 in the first if it is too small to be chunked.
std::array<hsize_t, 3> chunk_of(const DatasetSchema& dataset, const Extents& extents);

}  // namespace kvscope::trace
