#pragma once
// A trace of some runs, open in a program.

#include <string>
#include <vector>

#include "engine/core/trace/trace_file.h"
#include "tests/app/program.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"

namespace kvscope::test {

/// One trace has one model: the first run's.
inline void write_runs(const std::string& path, std::vector<RunRecord> runs) {
  TraceWriter writer(path, runs[0].model,
                     {.max_runs = static_cast<int>(runs.size()), .max_positions = runs[0].n_tokens()});
  for (RunRecord& run : runs) run.model = runs[0].model, writer.add(run);
  writer.finish();
}

/// -> the trace's path.
inline std::string open_runs(Program& program, const TemporaryFolder& folder, std::vector<RunRecord> runs) {
  const std::string path = (folder / "t.h5").string();
  write_runs(path, std::move(runs));
  program.commands.execute("trace.open", {{"path", path}});
  program.settle();
  return path;
}

/// Three policies over one text.
inline std::string open_three(Program& program, const TemporaryFolder& folder) {
  std::vector<RunRecord> runs;
  for (const char* policy : {"kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:window=30", "full"})
    runs.push_back(random_run(3, {.policy = policy, .prompt_len = 70, .n_new = 9}));
  return open_runs(program, folder, std::move(runs));
}

}  // namespace kvscope::test
