#pragma once
// A stranger's trace, opened in a child process. HDF5 can be made to crash, hang or write out of bounds by a damaged
// file; then only the child is lost, and what is left is an Error.
//
// The child is this program again (`PROGRAM --trace-child PATH`), because a fork of a program with threads may do next
// to nothing, and it gets: 4 GiB of address space, 60 s of CPU an answer, no files to write, no other files of ours, no
// core. It opens the trace once and sends the columns of one run after the other, as it is asked (trace_message.h); the
// parent checks them all again.

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_schema.h"

namespace kvscope {

struct ChildLimits {
  /// CPU time of the child, for opening the trace and for each run; a run gets a second more for each 32 MiB of it. A file that
  /// takes more is refused (bad input). A child that cannot work, because the machine is busy or the disk does not answer, is
  /// waited for 24 times as long by the clock, and then given up (resource).
  std::chrono::milliseconds work{5000};
};

/// Asked ten times a second, by the thread that waits, while a reader does not answer: false gives the file up (cancelled).
using OnSlowReading = std::function<bool(const std::filesystem::path& file, std::chrono::milliseconds waited)>;
/// For all readers of this program; to be set before the first of them.
void on_slow_reading(OnSlowReading ask);

/// A trace that was opened once. Any thread may use it, one at a time.
class TraceReader {
 public:
  /// `program` handles --trace-child through trace_child_main(); for kvscope that is "/proc/self/exe". Empty: no child,
  /// for programs that do not, and for files of our own. Throws as inspect_trace().
  TraceReader(const std::filesystem::path& program, const std::filesystem::path& path, const ChildLimits& limits = {});
  TraceReader(TraceReader&&) noexcept;
  ~TraceReader();
  const TraceInfo& info() const;
  /// Throws as load_trace(). A child that is lost stays lost. `slice`: where the run's rows stand in the file.
  RunRecord load(int run_index, trace::Slice* slice = nullptr);
  /// Throws Error if a span of a run lies outside the file's axes.
  trace::TraceRows rows();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The child: argv = {PROGRAM, "--trace-child", PATH}. To be called first of all in main(); the result is the exit
/// status: 0 if all answers were sent, be they Errors.
int trace_child_main(int argc, char** argv);

}  // namespace kvscope
