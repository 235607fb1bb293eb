#pragma once
// A stranger's trace, opened in a child process. HDF5 can be made to crash, hang or write out of bounds by a damaged
// file; then only the child is lost, and what is left is an Error.
//
// The child is this program again (`PROGRAM --trace-child PATH RUN`), because a fork of a program with threads may do
// next to nothing, and it gets: 4 GiB of address space, 60 s of CPU, no files to write, no other files of ours, no
// core. It sends the columns of one run through its standard output; the parent checks them all again.

#include <chrono>
#include <filesystem>

#include "engine/core/trace/trace_file.h"

namespace kvscope {

struct ChildLimits {
  std::chrono::milliseconds timeout{60000};  // wall clock, loading and sending together
};

/// As load_trace() and inspect_trace(). `program` handles --trace-child through trace_child_main(); for kvscope that is
/// "/proc/self/exe". Any thread may call them.
RunRecord load_trace_guarded(const std::filesystem::path& program, const std::filesystem::path& path, int run_index = 0,
                             const ChildLimits& limits = {});
TraceInfo inspect_trace_guarded(const std::filesystem::path& program, const std::filesystem::path& path,
                                const ChildLimits& limits = {});

/// The child: argv = {PROGRAM, "--trace-child", PATH, RUN | "info"}. To be called first of all in main(); the result is
/// the exit status: 0 if an answer was sent, be it an Error.
int trace_child_main(int argc, char** argv);

}  // namespace kvscope
