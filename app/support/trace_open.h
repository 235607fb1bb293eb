#pragma once
// Traces of strangers: read in a child process, which a damaged file may crash or hang.

#include <filesystem>
#include <vector>

#include "engine/core/trace/trace_child.h"

namespace kvscope::app {

inline TraceReader open_trace(const std::filesystem::path& path) { return {"/proc/self/exe", path}; }
/// Of those of a study: prompts that a capture could not decode (--skip-bad) have nothing to count.
inline void leave_out_empty(std::vector<RunRecord>& runs) {
  std::erase_if(runs, [](const RunRecord& run) { return run.status == RunStatus::failed && run.ids.empty(); });
}
inline std::vector<const RunRecord*> run_pointers(const std::vector<RunRecord>& runs) {
  std::vector<const RunRecord*> pointers;
  for (const RunRecord& run : runs) pointers.push_back(&run);
  return pointers;
}

}  // namespace kvscope::app
