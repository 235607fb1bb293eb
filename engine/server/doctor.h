#pragma once
#include <nlohmann/json_fwd.hpp>

namespace kvscope::engine {

/// What this machine gives the engine, as an array of {name, ok, text, hint}: version, LibTorch, CPU, CUDA devices and
/// their memory.
nlohmann::json doctor_checks();

}  // namespace kvscope::engine
