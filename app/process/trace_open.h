#pragma once
// Traces of strangers: read in a child process, which a damaged file may crash or hang.

#include <filesystem>
#include <vector>

#include "engine/core/trace/trace_child.h"

namespace kvscope::app {

/// Run `run_index` of a trace. `program` handles --trace-child, as kvscope does; empty: no child, for programs that do
/// not.
inline RunRecord load_run(const std::filesystem::path& path, int run_index,
                          const std::filesystem::path& program = "/proc/self/exe") {
  return program.empty() ? load_trace(path, run_index) : load_trace_guarded(program, path, run_index);
}
/// What is in a trace, without its runs.
inline TraceInfo load_info(const std::filesystem::path& path, const std::filesystem::path& program = "/proc/self/exe") {
  return program.empty() ? inspect_trace(path) : inspect_trace_guarded(program, path);
}
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
