#pragma once
// Traces given on the command line.

#include <span>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {

/// Every run of every trace, in order. Traces of strangers are read in a child process. Throws Error; a trace without
/// runs is an error too.
std::vector<RunRecord> load_all_runs(std::span<const std::string> paths);
/// What is in a trace, without its runs; a child process reads it.
TraceInfo load_info(const std::string& path);
/// Run `run_index` of one trace; a child process reads it.
RunRecord load_run(const std::string& path, int run_index);
std::vector<const RunRecord*> run_pointers(const std::vector<RunRecord>& runs);

}  // namespace kvscope::app
