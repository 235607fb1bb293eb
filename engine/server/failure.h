#pragma once
// Whatever was thrown, as the one error that the client is told.

#include "engine/core/support/error.h"

namespace kvscope::engine {

struct Failure {
  Error error;
  /// A CUDA fault: the context is lost, every later CUDA call of this process fails too, and only a new process helps.
  bool ends_process = false;
};

/// The exception being handled: kvscope::Error as it is; out of memory (host or device) as a resource with a hint; a CUDA
/// fault as a resource, by CUDA's name for it; anything else as internal. To be called in a catch block.
Failure current_failure();

}  // namespace kvscope::engine
