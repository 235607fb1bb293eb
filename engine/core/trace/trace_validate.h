#pragma once
// Whether a file is a trace. Allow-list: only the paths of the schema are looked at, and each must be exactly as the
// format says. Everything else in a file (and in HDF5) is never touched.

#include <filesystem>
#include <string>

#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_layout.h"
#include "engine/core/trace/trace_shards.h"

namespace kvscope::trace {

/// One run may have this many bytes, a chunk this many. Deflate cannot do better than about 1030 : 1, so more declared
/// bytes than that a compressed byte is a bomb.
inline constexpr std::int64_t kMaxRunBytes = std::int64_t{2} << 30;
inline constexpr std::int64_t kMaxChunkBytes = std::int64_t{64} << 20;
inline constexpr std::int64_t kMaxExpansion = 1100;

struct ValidTrace {
  std::string file;
  OpenTrace trace;
  Extents extents;    // of the datasets; of a partial trace, its capacity
  ShardTable shards;  // of a merged trace
  TraceInfo info;
  std::uint64_t file_size = 0;
};

/// Opens read-only and checks links, types, shapes, layouts, filters, storage and `committed`. Throws Error: what,
/// where, expected, found. The rows of a run are checked when they are read.
ValidTrace open_valid(const std::filesystem::path& path);

}  // namespace kvscope::trace
