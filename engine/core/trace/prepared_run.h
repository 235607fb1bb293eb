#pragma once

#include "engine/core/trace/run_derived.h"

namespace kvscope {

/// A run that is ready to be written: it can be read back, and the columns that follow from it are there. To make this is
/// most of the work of writing a run, and any thread can do it.
class PreparedRun {
 public:
  /// Throws Error if the run contradicts itself.
  explicit PreparedRun(RunRecord run);

  const RunRecord& run() const { return run_; }
  const trace::DerivedColumns& derived() const { return derived_; }

 private:
  RunRecord run_;
  trace::DerivedColumns derived_;
};

}  // namespace kvscope
