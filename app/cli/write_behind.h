#pragma once
// Runs are written while the next one is decoded.

#include <future>

#include "engine/core/trace/trace_file.h"

namespace kvscope::app {

/// A TraceWriter whose add() happens beside whoever calls: checking and committing a short run takes 5 ms, and an engine that
/// waits for it decodes nothing (204 s for 10,000 short prompts, where 131 s were decoding). One run is under way at
/// a time, so HDF5 is used by one thread at a time, and what waits is one run's memory. Nobody else touches the writer
/// until wait() has returned.
class WriteBehind {
 public:
  explicit WriteBehind(TraceWriter& writer) : writer_(writer) {}
  /// Waits; an error of the last run is lost here, which is for a way out that has an error of its own.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Begins to write `run` once the run before is committed. Throws what add() of that one threw.
  void add(RunRecord run);
  /// Returns once every run is committed. Throws what add() of the last one threw.
  void wait();

 private:
  TraceWriter& writer_;
  std::future<void> under_way_;
};

}  // namespace kvscope::app
