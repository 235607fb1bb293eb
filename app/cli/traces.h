#pragma once
// Traces given on the command line.

#include <span>
#include <string>
#include <vector>

#include "app/process/trace_open.h"

namespace kvscope::app {

/// Every run of every trace, in order. Traces of strangers are read in a child process. Throws Error; a trace without
/// runs is an error too.
std::vector<RunRecord> load_all_runs(std::span<const std::string> paths);
std::vector<const RunRecord*> run_pointers(const std::vector<RunRecord>& runs);

}  // namespace kvscope::app
