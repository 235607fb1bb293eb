#pragma once
// Many traces of one list of prompts as one trace.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace kvscope {

struct MergeOptions {
  bool overwrite = false;
  bool copy = false;           // real data instead of virtual datasets over the shards
  bool allow_missing = false;  // prompts that no shard has answered are left out
  // Handles --trace-child: the shards are read in child processes (TraceReader). Empty: in this one.
  std::filesystem::path program;
  std::function<void(int done, int total)> progress;  // runs; may throw, then nothing is written
};

/// A run by where it was.
struct MergedRun {
  int shard = 0, run = 0;
  bool operator==(const MergedRun&) const = default;
};

struct MergeReport {
  int n_runs = 0, n_prompts = 0;
  std::int64_t n_tokens = 0;
  std::vector<std::int32_t> missing;  // prompts without an answer, rising
  std::vector<MergedRun> from;        // of each run of the merged trace
};

/// Writes the runs of all shards, in the order of their prompts, to `target`: small data copied, large data as virtual
/// datasets over the shards, which must stay beside it (trace_shards.h). Every run is read and checked on the way. The
/// file appears when it is whole.
///
/// Throws Error (bad input): a file that is no capture's trace or a merged one itself, shards of different models,
/// prompts or options, a prompt answered twice, prompts missing without allow_missing, a shard in another folder
/// without copy.
MergeReport merge_traces(std::span<const std::filesystem::path> shards, const std::filesystem::path& target,
                         const MergeOptions& options);

}  // namespace kvscope
