#pragma once
// Merged traces: what stands where when the large datasets are virtual, over shards in the same folder.
//
// The token, contest, read, page, text and piece axes of a merged file are those of its shards one after the other, so
// a dataset needs one mapping a shard, however the runs interleave. The run axis is in the order of the prompts, and
// what belongs to it is real data, as are the spans, which count from the merged file's start. /shards has
//
//     name     [shard] strings     file names without folder; nothing but these is opened
//     filled   [shard][7] int64    how many runs, tokens, contests, text bytes, piece bytes, reads and pages of each
//                                  are taken: its first ones
//     of_run   [run] int32         which shard has the rest of the run
//
// Our reader goes to the one shard that it needs, through the shard's own validation; the virtual datasets are for
// h5py and its like, and are checked to say the same.

#include <string>
#include <vector>

#include "engine/core/trace/h5_handle.h"
#include "engine/core/trace/trace_schema.h"

namespace kvscope::trace {

/// Axes on which a run's rows stand in its shard.
inline constexpr std::array<Axis, 6> kShardAxes = {Axis::token,      Axis::contest, Axis::text_byte,
                                                   Axis::piece_byte, Axis::read,    Axis::page};
/// The columns of /shards/filled.
inline constexpr std::array<Axis, 7> kFilledAxes = {Axis::run,        Axis::token, Axis::contest, Axis::text_byte,
                                                    Axis::piece_byte, Axis::read,  Axis::page};
inline constexpr std::int64_t kMaxShards = 4096;
inline constexpr std::size_t kMaxShardName = 255;

struct ShardTable {
  std::vector<std::string> names;
  std::vector<Extents> filled;       // [shard] what is taken of it
  std::vector<Extents> extents;      // [shard] of its datasets; only known while a file is merged
  std::vector<std::int32_t> of_run;  // [run]
  /// Where the rows of a shard begin in the merged file.
  std::int64_t offset(int shard, Axis axis) const;
};

/// Whether the dataset is virtual in a merged trace. Spans of pieces and pages are not: they count from the
/// file's start.
constexpr bool is_in_shards(const DatasetSchema& dataset) {
  if (dataset.id == Dataset::piece_span || dataset.id == Dataset::page_span) return false;
  for (const Axis axis : dataset.axes)
    for (const Axis own : kShardAxes)
      if (axis == own) return true;
  return false;
}

/// A name that can stand in the table: one component of a path, no '%' (HDF5 reads patterns into it).
bool is_shard_name(const std::string& name);

/// Turns `creation` into that of a virtual dataset. A shard that is missing shows in h5py as NaN or -1, not as zeros.
void set_sources(hid_t creation, const DatasetSchema& dataset, const Extents& extents, const ShardTable& shards);
/// Whether the mappings are exactly those that set_sources() makes. Throws Error naming `file` and the dataset.
void check_sources(hid_t creation, const DatasetSchema& dataset, const ShardTable& shards, const std::string& file);

void write_shards(hid_t file, const ShardTable& shards);
/// Names, sizes and indices are checked. `extents`: of the merged file. Throws Error naming `file`.
ShardTable read_shards(hid_t names, hid_t filled, hid_t of_run, const Extents& extents, const std::string& file);

}  // namespace kvscope::trace
