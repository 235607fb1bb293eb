#include "engine/core/trace/merge_notes.h"

#include <algorithm>

#include "engine/core/support/error.h"
#include "engine/core/trace/trace_notes.h"

namespace kvscope {

MergedNotes merge_notes(std::span<const std::filesystem::path> shards, std::span<const MergedRun> from,
                        const std::filesystem::path& merged) {
  MergedNotes result;
  std::vector<RunNotes> all;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    std::vector<RunNotes> notes;
    try {
      notes = read_notes(shards[shard]);
    } catch (const Error& error) {
      result.unread.emplace_back(error.what());
    }
    for (RunNotes& run : notes) {
      const auto found = std::ranges::find(from, MergedRun{static_cast<int>(shard), run.run});
      if (found == from.end()) continue;
      run.run = static_cast<int>(found - from.begin());
      all.push_back(std::move(run));
    }
  }
  result.n_runs = static_cast<int>(all.size());
  if (!all.empty()) update_notes(merged, all);
  return result;
}

}  // namespace kvscope
