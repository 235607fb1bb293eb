#pragma once
// Runs are written while the next ones are decoded.

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/core/trace/prepared_run.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {

/// A TraceWriter on a separate thread. Runs that come faster than the disk confirms them are committed together: a commit begins
/// when no run waits, and at the latest 0.5 s after the commit before or with 64 MB of runs. Other threads, half as many as there
/// are cores, prepare the runs that wait, which is most of the work. The writer prepares none: it would fall behind, more runs
/// would wait, and it would prepare more of them. At most 512 MB of runs wait, or one run. Nothing else may use the TraceWriter
/// until wait() has returned.
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
  struct Waiting {
    std::int64_t bytes;
    std::optional<RunRecord> run;  // until it is prepared
    trace::RunPlace place;
    bool is_taken = false;               // a thread prepares it
    std::unique_ptr<PreparedRun> ready;  // then this, or why not
    std::exception_ptr error;
    bool is_ready() const { return ready || error; }
  };

  void write_all();
  /// One commit, of what waits. The queue is not empty; the lock is held before and after.
  void write_group(std::unique_lock<std::mutex>& lock);
  /// The first run once it is prepared, out of the queue.
  std::shared_ptr<Waiting> next_ready(std::unique_lock<std::mutex>& lock);
  void prepare_all();
  /// The first run that no thread prepares, or null.
  std::shared_ptr<Waiting> unprepared() const;
  void prepare(Waiting& waiting, std::unique_lock<std::mutex>& lock);
  void throw_error() const;

  TraceWriter& writer_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Waiting>> queue_;
  trace::RunPlace place_;   // of the run that is added next
  std::int64_t bytes_ = 0;  // of runs that are not committed, about
  int committed_;
  bool stop_ = false, is_busy_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> preparers_;  // none if they cannot be had: then the writer prepares
  std::thread thread_;                  // none if it cannot be had: then add() writes
};

}  // namespace kvscope::app
