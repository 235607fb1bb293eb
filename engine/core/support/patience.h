#pragma once
#include <chrono>

namespace kvscope {

/// How long another program may take to answer: KVSCOPE_ENGINE_TIMEOUT in seconds (0: without end, negative here), 60 s if it is
/// not set. It holds for an engine that is to greet or to go on with a message, and for a scorer over a pipe. Throws Error
/// (usage) for what is no such number.
std::chrono::milliseconds default_patience();

}  // namespace kvscope
