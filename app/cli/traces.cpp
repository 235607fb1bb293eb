#include "app/cli/traces.h"

#include "engine/core/support/error.h"

namespace kvscope::app {

std::vector<RunRecord> load_all_runs(std::span<const std::string> paths) {
  std::vector<RunRecord> runs;
  for (const std::string& path : paths) {
    const TraceInfo info = load_info(path);
    if (info.n_runs == 0) throw Error({.file = path, .found = "a trace without runs"});
    for (int i = 0; i < info.n_runs; ++i) runs.push_back(load_run(path, i));
  }
  return runs;
}

std::vector<const RunRecord*> run_pointers(const std::vector<RunRecord>& runs) {
  std::vector<const RunRecord*> pointers;
  for (const RunRecord& run : runs) pointers.push_back(&run);
  return pointers;
}

}  // namespace kvscope::app
