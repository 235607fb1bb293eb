#pragma once
// Runs are written while the next ones are decoded.

#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <thread>

#include "engine/core/trace/prepared_run.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {

/// A TraceWriter on a separate thread; others prepare the runs that wait. Runs that come faster than the disk confirms them are
/// committed together: a commit begins when no run waits, and at the latest 0.5 s after the commit before or with 64 MB of
/// runs. What waits is as much memory at most, or one run. Nothing else may use the writer until wait() has returned.
class RunWriter {
 public:
  explicit RunWriter(TraceWriter& writer);
  /// Waits; an error is lost here, which is for a way out that has an error already.
  ~RunWriter();

  /// Takes the run once there is room for it. Throws what writing an earlier one threw; no run is written after that.
  void add(RunRecord run);
  /// Returns once every run is committed. Throws what writing one of them threw.
  void wait();
  /// Runs that are safe, those included that the trace had before.
  int committed() const;

 private:
  void work();
  /// One commit, of what waits. The queue is not empty; the lock is held before and after.
  void write_group(std::unique_lock<std::mutex>& lock);
  void throw_error() const;
  /// In a new thread while few runs wait, else in the thread that writes it.
  std::future<PreparedRun> prepare(RunRecord run);

  TraceWriter& writer_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  struct Waiting {
    std::int64_t bytes;
    std::future<PreparedRun> run;
  };
  std::deque<Waiting> queue_;
  std::int64_t bytes_ = 0;  // of runs that are not committed, about
  int committed_;
  bool stop_ = false, is_busy_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // none if it cannot be had: then add() writes
};

}  // namespace kvscope::app
