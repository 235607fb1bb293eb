#pragma once

#include "engine/core/trace/run_block.h"

namespace kvscope {

/// A run that is ready to be written at its place in a trace: its columns are there, those included that follow from others, and it
/// can be read back. To make this is most of the work of writing a run, and any thread can do it.
class PreparedRun {
 public:
  /// Throws Error if the run contradicts itself.
  PreparedRun(RunRecord run, const trace::RunPlace& place);

  const ModelInfo& model() const { return model_; }
  const trace::RunPlace& place() const { return place_; }
  const trace::RunBlock& block() const { return block_; }

 private:
  ModelInfo model_;
  trace::RunPlace place_;
  trace::RunBlock block_;
};

}  // namespace kvscope
