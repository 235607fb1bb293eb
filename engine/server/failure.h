#pragma once
// Whatever was thrown, as the one error that the client is told.

#include "engine/core/support/error.h"

namespace kvscope::engine {

/// The exception being handled, as an Error: kvscope::Error as it is; out of memory (host or device) as a resource with
/// a hint; a CUDA fault as a resource that asks for a restart; anything else as internal. To be called in a catch
/// block.
Error current_failure();

}  // namespace kvscope::engine
