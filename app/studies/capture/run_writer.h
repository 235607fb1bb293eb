#pragma once
// Runs are written while the next one is decoded.

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/core/trace/trace_file.h"

namespace kvscope::app {

/// A TraceWriter whose add() happens on a thread of its own: checking and committing a short run takes 5 ms, and an engine that
/// waits for it decodes nothing (204 s for 10,000 short prompts, where 131 s were decoding). One run is under way at
/// a time, so HDF5 is used by one thread at a time, and what waits is one run's memory. Nobody else touches the writer
/// until wait() has returned.
class RunWriter {
 public:
  /// Where no thread can be had, add() writes by itself.
  explicit RunWriter(TraceWriter& writer);
  /// Waits; an error of the last run is lost here, which is for a way out that has an error of its own.
  ~RunWriter();
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  /// Begins to write `run` once the run before is committed. Throws what add() of that one threw.
  void add(RunRecord run);
  /// Returns once every run is committed. Throws what add() of the last one threw.
  void wait();

 private:
  void work();

  TraceWriter& writer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<RunRecord> run_;  // to be written, or being written
  std::exception_ptr error_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace kvscope::app
