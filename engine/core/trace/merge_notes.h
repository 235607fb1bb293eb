#pragma once
// What a person has written about the runs of shards, taken along to the merged trace.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/core/trace/trace_merge.h"

namespace kvscope {

struct MergedNotes {
  int n_runs = 0;                   // that have notes
  std::vector<std::string> unread;  // a line for each file of notes that cannot be read: it stays where it is
};

/// The notes beside the shards (trace_notes.h) go beside `merged` too, each with its run; the shards keep theirs. Notes of a run
/// that was not merged stay behind. `from`: of MergeReport. Throws Error as update_notes().
MergedNotes merge_notes(std::span<const std::filesystem::path> shards, std::span<const MergedRun> from,
                        const std::filesystem::path& merged);

}  // namespace kvscope
