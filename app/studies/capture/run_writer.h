#pragma once
// Runs are written while the next one is decoded.

#include "engine/core/support/background.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {

/// A TraceWriter whose add() happens on a separate thread: checking and committing a short run takes 5 ms, and an engine that
/// waits for it decodes nothing (204 s for 10,000 short prompts, where 131 s were decoding). One run is under way at
/// a time, so HDF5 is used by one thread at a time, and what waits is one run's memory. Nothing else may use the writer
/// until wait() has returned.
class RunWriter {
 public:
  explicit RunWriter(TraceWriter& writer) : writer_(writer), background_({}) {}
  /// Waits; an error of the last run is lost here, which is for a way out that has an error already.
  ~RunWriter() { background_.wait(); }

  /// Begins to write `run` once the run before is committed. Throws what add() of that one threw.
  void add(RunRecord run);
  /// Returns once every run is committed. Throws what add() of the last one threw.
  void wait();

 private:
  TraceWriter& writer_;
  Background<bool> background_;
};

}  // namespace kvscope::app
